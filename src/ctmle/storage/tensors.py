"""Pytrees in safetensors files: names and arrays, nothing that could run when it is loaded."""

import json
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from ctmle.storage.files import SCHEMA, check_regular, check_schema, digest, write_whole

Tree = TypeVar("Tree")
Arrays = dict[str, np.ndarray]


def save_tree(path: Path, tree: Any, about: dict[str, Any] | None = None) -> None:
    """Write the arrays of a pytree, each named after its place, and what JSON can hold `about` them."""
    arrays = {name: _to_numpy(leaf) for name, leaf in _named_arrays(tree)}
    described = {"schema": SCHEMA, **(about or {})}
    # One entry: the order of several would differ from run to run.
    metadata = {"ctmle": json.dumps({**described, "checksum": _checksum(described, arrays)})}
    write_whole(path, save(arrays, metadata=metadata))


def load_tree(path: Path, like: Tree) -> Tree:
    """The pytree of `like`'s structure and shapes with the arrays of the file."""
    return fill(path, read_tensors(path)[0], like)


def read_tensors(path: Path) -> tuple[Arrays, dict[str, Any]]:
    """The arrays of a file and what was said about them, if all is as it was written.

    Raises ValueError, with the file's name, what is wrong and what to do, for anything else.
    """
    check_regular(path)
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, TypeError, KeyError, OverflowError, MemoryError) as error:
        raise ValueError(f"{path} is cut off, damaged or not a safetensors file ({error})") from error
    try:
        described = json.loads(metadata["ctmle"])
        schema, checksum = described["schema"], described.pop("checksum")
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} was not written by ctmle") from error
    check_schema(path, schema)
    if checksum != _checksum(described, arrays):
        raise ValueError(f"{path} was changed or damaged since it was written")
    return arrays, {key: value for key, value in described.items() if key != "schema"}


def fill(path: Path, arrays: Arrays, like: Tree) -> Tree:
    """`like` with its arrays, or shapes of arrays, replaced by those of the same names. `path` is named if they do
    not fit."""
    wanted = {name: _stored_as(leaf) for name, leaf in _named_arrays(like)}
    if arrays.keys() != wanted.keys():
        odd = sorted(arrays.keys() ^ wanted.keys())[0]
        where = "lacks" if odd in wanted else "has an unexpected"
        raise ValueError(f"{path} does not fit this run: it {where} '{odd}'")
    for name, leaf in wanted.items():
        found = arrays[name]
        if (found.dtype, found.shape) != (leaf.dtype, leaf.shape):
            raise ValueError(
                f"{path} does not fit this run: '{name}' is {found.dtype}{list(found.shape)},"
                f" not {leaf.dtype}{list(leaf.shape)}"
            )

    def replace(place: Any, leaf: Any) -> Any:
        return _from_numpy(arrays[jax.tree_util.keystr(place)], leaf) if _has_shape(leaf) else leaf

    return jax.tree_util.tree_map_with_path(replace, like)


def _checksum(described: dict[str, Any], arrays: Arrays) -> str:
    layout = [(name, str(array.dtype), array.shape) for name, array in sorted(arrays.items())]
    return digest([described, layout], *(arrays[name].tobytes() for name in sorted(arrays)))


def _has_shape(leaf: Any) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)


def _named_arrays(tree: Any) -> list[tuple[str, Any]]:
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return [(jax.tree_util.keystr(place), leaf) for place, leaf in leaves if _has_shape(leaf)]


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _stored_as(leaf: Any) -> jax.ShapeDtypeStruct:
    """Type and shape of a leaf in a file; of a random key, those of its bits."""
    if _is_key(leaf):
        return jax.eval_shape(jax.random.key_data, leaf)
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)


def _to_numpy(leaf: Any) -> np.ndarray:
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf, order="C")


def _from_numpy(array: np.ndarray, like: Any) -> Any:
    return jax.random.wrap_key_data(jnp.asarray(array)) if _is_key(like) else jnp.asarray(array)
