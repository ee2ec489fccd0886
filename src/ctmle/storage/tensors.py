"""Pytrees in safetensors files: names and arrays, nothing that could run when it is loaded."""

import os
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

Tree = TypeVar("Tree")


def save_tree(path: Path, tree: Any, **metadata: str) -> None:
    """Write the arrays of a pytree, each named after its place; a crash leaves the old file or the new one."""
    arrays = {name: _to_numpy(leaf) for name, leaf in _named_arrays(tree)}
    write_whole(path, save(arrays, metadata=metadata or None))


def load_tree(path: Path, like: Tree) -> Tree:
    """The pytree of `like`'s structure with the arrays of the file; their shapes are the file's.

    Raises ValueError, with the file's name, when it is not a safetensors file or holds other arrays than `like` has.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise ValueError(f"cannot read {path}: {error}") from error
    wanted = dict(_named_arrays(like))
    if found.keys() != wanted.keys():
        odd = sorted(found.keys() ^ wanted.keys())[0]
        where = "lacks" if odd in wanted else "has an unexpected"
        raise ValueError(f"{path} does not fit this run: it {where} '{odd}'")
    for name, leaf in wanted.items():
        if found[name].dtype != _to_numpy(leaf).dtype or found[name].ndim != _to_numpy(leaf).ndim:
            raise ValueError(f"{path} does not fit this run: '{name}' has another type or rank")

    def replace(place: Any, leaf: Any) -> Any:
        return _from_numpy(found[jax.tree_util.keystr(place)], leaf) if eqx.is_array(leaf) else leaf

    return jax.tree_util.tree_map_with_path(replace, like)


def read_metadata(path: Path) -> dict[str, str]:
    """The strings that `save_tree` was given beside the arrays."""
    try:
        with safe_open(path, framework="numpy") as file:
            return file.metadata() or {}
    except (SafetensorError, OSError) as error:
        raise ValueError(f"cannot read {path}: {error}") from error


def write_whole(path: Path, content: bytes) -> None:
    """Write aside, flush to the disk, rename: never half a file."""
    aside = path.with_name(path.name + ".part")
    with aside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


def _named_arrays(tree: Any) -> list[tuple[str, Any]]:
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return [(jax.tree_util.keystr(place), leaf) for place, leaf in leaves if eqx.is_array(leaf)]


def _to_numpy(leaf: Any) -> np.ndarray:
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf, order="C")


def _from_numpy(array: np.ndarray, like: Any) -> Any:
    if isinstance(like, jax.Array) and jnp.issubdtype(like.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(jnp.asarray(array))
    return jnp.asarray(array)
