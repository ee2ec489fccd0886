"""Ensembles on all devices: the cores of a processor, or accelerators."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float

MEMBERS = "members"

LARGE = 10_000
"""Numbers in an array that is exchanged by itself."""

Parameters = TypeVar("Parameters")
Pieces = TypeVar("Pieces")
Extra = TypeVar("Extra")


class SplitByMember(eqx.Module):
    """A module whose arrays all have a leading member axis, along which they are split over devices."""


def compiled_over_devices(updates: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `updates`; split every `SplitByMember` in its arguments over the devices and copy the rest to each.

    One whose members cannot be split evenly is copied, too.

    The result is returned on one device, so that no caller needs to know. (The round trip costs some milliseconds per
    call, and a call runs dozens of updates.) Small matrix products use one core only, so on a processor this is what
    keeps the others busy.
    """
    compiled = eqx.filter_jit(updates)

    @functools.wraps(updates)
    def call(*arguments: Any) -> Any:
        mesh = mesh_for(arguments)
        if mesh is None:
            return compiled(*arguments)
        with jax.set_mesh(mesh):
            result = compiled(*_split(arguments, mesh))
        return _on_first_device(result)

    return call


def mesh_for(tree: Any) -> Mesh | None:
    """Return the most devices that the first ensemble in `tree` can be split over evenly; None if that is one."""
    ensemble = next((node for node in _nodes(tree) if _is_split(node)), None)
    if ensemble is None:
        return None
    members, devices = _members(ensemble), jax.local_devices()
    count = max(n for n in range(1, len(devices) + 1) if members % n == 0)
    return None if count == 1 else jax.make_mesh((count,), (MEMBERS,), (AxisType.Auto,), devices=devices[:count])


def mean_gradient(
    loss: Callable[[Parameters, Pieces], tuple[Float[Array, ""], Extra]], parameters: Parameters, pieces: Pieces
) -> tuple[tuple[Float[Array, ""], Extra], Any]:
    """Compute value and gradient of a mean over members, or over samples, by `parameters` that they share.

    Arrays in `pieces` have the member (or sample) axis first, the loss's extra results have it second. Each device sums
    its own share, and they exchange once, at the end. (The compiler alone would exchange at every step of a loop in the
    loss.) If axis 0 is not divisible by the number of devices, every device computes the full batch.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty or any(len(leaf) % mesh.size for leaf in jax.tree.leaves(eqx.filter(pieces, eqx.is_array))):
        return eqx.filter_value_and_grad(loss, has_aux=True)(parameters, pieces)
    arrays, static = eqx.partition((parameters, pieces), eqx.is_array)

    def on_device(parameters: Any, pieces: Any) -> tuple[tuple[Array, Any], Any]:
        parameters = jax.lax.pcast(parameters, MEMBERS, to="varying")
        parameters, pieces = eqx.combine((parameters, pieces), static)
        (value, extra), gradient = eqx.filter_value_and_grad(loss, has_aux=True)(parameters, pieces)
        value, gradient = _mean_over_devices((value, eqx.filter(gradient, eqx.is_array)))
        return (value, extra), gradient

    everywhere, first, second = PartitionSpec(), PartitionSpec(MEMBERS), PartitionSpec(None, MEMBERS)
    together = jax.shard_map(on_device, in_specs=(everywhere, first), out_specs=((everywhere, second), everywhere))
    return together(*arrays)


def member_norms(gradient: Any) -> Float[Array, " members"]:
    """Compute the norm of each member's gradient."""
    leaves = jax.tree.leaves(eqx.filter(gradient, eqx.is_array))
    squares = functools.reduce(jnp.add, [jnp.sum(jnp.square(leaf.reshape(len(leaf), -1)), axis=1) for leaf in leaves])
    return jnp.sqrt(squares)


def member_means(*values: Float[Array, " members"]) -> tuple[Float[Array, ""], ...]:
    """Average each over members; in one exchange, because devices exchange arrays one by one, however small."""
    return tuple(jnp.mean(jnp.stack(values), axis=1))


def _mean_over_devices(tree: Any) -> Any:
    """Exchange small arrays together: an exchange costs some 40 microseconds, however small; joining large arrays would
    cost more than that."""
    small, large = eqx.partition(tree, lambda leaf: leaf.size < LARGE)
    flat, unflatten = ravel_pytree(small)
    flat, large = jax.lax.pmean((flat, large), MEMBERS)
    return eqx.combine(unflatten(flat), large)


def _is_split(node: Any) -> bool:
    return isinstance(node, SplitByMember)


def _members(node: Any) -> int:
    return len(jax.tree.leaves(eqx.filter(node, eqx.is_array))[0])


def _nodes(tree: Any) -> list[Any]:
    return jax.tree.leaves(tree, is_leaf=_is_split)


def _split(tree: Any, mesh: Mesh) -> Any:
    def put(node: Any) -> Any:
        divisible = _is_split(node) and _members(node) % mesh.size == 0
        spec = PartitionSpec(MEMBERS) if divisible else PartitionSpec()
        arrays, static = eqx.partition(node, eqx.is_array)
        return eqx.combine(jax.device_put(arrays, NamedSharding(mesh, spec)), static)

    return jax.tree.map(put, tree, is_leaf=_is_split)


def _on_first_device(tree: Any) -> Any:
    """Move arrays by way of the host: those that JAX moves between devices stay bound to the last one, and programs
    that were compiled for others are compiled anew for them."""
    arrays, static = eqx.partition(tree, eqx.is_array)
    return eqx.combine(jax.device_put(jax.device_get(arrays)), static)
