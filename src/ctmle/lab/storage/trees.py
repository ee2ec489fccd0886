"""Pytrees in tensor files: each array is named after its place in the tree."""

from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ctmle.lab.storage.tensors import Arrays, Layout, layout_of, read_tensors, write_tensors

Tree = TypeVar("Tree")


def save_tree(path: Path, tree: Any) -> None:
    """Write the arrays of a pytree."""
    write_tensors(path, arrays_of(tree))


def load_tree(path: Path, like: Tree) -> Tree:
    """Return a pytree with the structure and shapes of `like` and the arrays of the file."""
    return fill(path, read_tensors(path, partial(check_layout, path, like=like))[0], like)


def arrays_of(tree: Any) -> Arrays:
    """Return the arrays of a pytree by their places, as they are stored."""
    return {name: _to_numpy(leaf) for name, leaf in _named_arrays(tree)}


def check_layout(path: Path, layout: Layout, like: Any) -> None:
    """Raise ValueError, which names `path`, if arrays of these types and shapes do not fit a tree."""
    wanted = {name: _stored_as(leaf) for name, leaf in _named_arrays(like)}
    if layout.keys() != wanted.keys():
        odd = sorted(layout.keys() ^ wanted.keys())[0]
        where = "lacks" if odd in wanted else "has an unexpected"
        raise ValueError(
            f"{path} does not fit this run: it {where} '{odd}'. If another version of ctmle wrote it, continue"
            " with that version, or start the run again in another folder"
        )
    for name, leaf in wanted.items():
        dtype, shape = layout[name]
        if (dtype, shape) != (leaf.dtype, leaf.shape):
            raise ValueError(
                f"{path} does not fit this run: '{name}' is {dtype}{list(shape)}, not {leaf.dtype}{list(leaf.shape)}"
            )


def fill(path: Path, arrays: Arrays, like: Tree) -> Tree:
    """Replace the arrays of `like`, or shapes of arrays, by those of the same names.

    Raises ValueError, which names `path`, if they do not fit.
    """
    check_layout(path, layout_of(arrays), like)

    def replace(place: Any, leaf: Any) -> Any:
        return _from_numpy(arrays[jax.tree_util.keystr(place)], leaf) if _has_shape(leaf) else leaf

    return jax.tree_util.tree_map_with_path(replace, like)


def _has_shape(leaf: Any) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)


def _named_arrays(tree: Any) -> list[tuple[str, Any]]:
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return [(jax.tree_util.keystr(place), leaf) for place, leaf in leaves if _has_shape(leaf)]


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _stored_as(leaf: Any) -> jax.ShapeDtypeStruct:
    """Return the type and shape of a leaf in a file; of a random key, those of its bits."""
    if _is_key(leaf):
        return jax.eval_shape(jax.random.key_data, leaf)
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)


def _to_numpy(leaf: Any) -> np.ndarray:
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf, order="C")


def _from_numpy(array: np.ndarray, like: Any) -> Any:
    return jax.random.wrap_key_data(jnp.asarray(array)) if _is_key(like) else jnp.asarray(array)
