"""The members of an ensemble on all devices that there are: cores of a processor, or accelerators."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float

from ctmle.dynamics.model import Dynamics

MEMBERS = "members"

LARGE = 10_000
"""Numbers in an array that is exchanged by itself."""

Parameters = TypeVar("Parameters")
Parts = TypeVar("Parts")
Beside = TypeVar("Beside")


def compiled_over_devices(updates: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `updates`; every ensemble in its arguments is split over the devices, and all else is on each of them.

    What comes back is on one device, as anything else is: nobody else needs to know. (To send it there and back
    costs some milliseconds per call, which is some dozens of updates.) Small matrix products do not use more than
    one core, so on a processor this is what makes use of the others.
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
    """As many devices as the ensemble in `tree` can be split over in equal parts; none if that is one."""
    ensemble = next((node for node in _nodes(tree) if _is_ensemble(node)), None)
    if ensemble is None:
        return None
    members, devices = ensemble.drift_scale.shape[0], jax.local_devices()
    count = max(n for n in range(1, len(devices) + 1) if members % n == 0)
    return None if count == 1 else jax.make_mesh((count,), (MEMBERS,), (AxisType.Auto,), devices=devices[:count])


def mean_gradient(
    loss: Callable[[Parameters, Parts], tuple[Float[Array, ""], Beside]], parameters: Parameters, parts: Parts
) -> tuple[tuple[Float[Array, ""], Beside], Any]:
    """Value and gradient of a mean over members, or over samples, by `parameters`, which all of them share.

    Arrays in `parts` have their axis first, what is beside the loss has it second. Each device sums up its own; they
    meet once, at the end. (Left to the compiler they would meet at every step of a loop in the loss.) Where they are
    not so many that all devices have equally many, each does all.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty or any(len(leaf) % mesh.size for leaf in jax.tree.leaves(eqx.filter(parts, eqx.is_array))):
        return eqx.filter_value_and_grad(loss, has_aux=True)(parameters, parts)
    arrays, static = eqx.partition((parameters, parts), eqx.is_array)

    def on_device(parameters: Any, parts: Any) -> tuple[tuple[Array, Any], Any]:
        parameters = jax.lax.pcast(parameters, MEMBERS, to="varying")
        parameters, parts = eqx.combine((parameters, parts), static)
        (value, beside), gradient = eqx.filter_value_and_grad(loss, has_aux=True)(parameters, parts)
        value, gradient = _mean_over_devices((value, eqx.filter(gradient, eqx.is_array)))
        return (value, beside), gradient

    everywhere, first, second = PartitionSpec(), PartitionSpec(MEMBERS), PartitionSpec(None, MEMBERS)
    together = jax.shard_map(on_device, in_specs=(everywhere, first), out_specs=((everywhere, second), everywhere))
    return together(*arrays)


def member_norms(gradient: Any) -> Float[Array, " members"]:
    """The norm of each member's gradient."""
    leaves = jax.tree.leaves(eqx.filter(gradient, eqx.is_array))
    squares = functools.reduce(jnp.add, [jnp.sum(jnp.square(leaf.reshape(len(leaf), -1)), axis=1) for leaf in leaves])
    return jnp.sqrt(squares)


def member_means(*values: Float[Array, " members"]) -> tuple[Float[Array, ""], ...]:
    """Means over members. Together, because devices exchange arrays one by one, however small they are."""
    return tuple(jnp.mean(jnp.stack(values), axis=1))


def _mean_over_devices(tree: Any) -> Any:
    """An exchange costs some 40 microseconds, however small, so small arrays go together; to lay large ones end to end
    would cost more than that."""
    small, large = eqx.partition(tree, lambda leaf: leaf.size < LARGE)
    flat, unflatten = ravel_pytree(small)
    flat, large = jax.lax.pmean((flat, large), MEMBERS)
    return eqx.combine(unflatten(flat), large)


def _is_ensemble(node: Any) -> bool:
    return isinstance(node, Dynamics)


def _nodes(tree: Any) -> list[Any]:
    return jax.tree.leaves(tree, is_leaf=_is_ensemble)


def _split(tree: Any, mesh: Mesh) -> Any:
    def put(node: Any) -> Any:
        spec = PartitionSpec(MEMBERS) if _is_ensemble(node) else PartitionSpec()
        arrays, static = eqx.partition(node, eqx.is_array)
        return eqx.combine(jax.device_put(arrays, NamedSharding(mesh, spec)), static)

    return jax.tree.map(put, tree, is_leaf=_is_ensemble)


def _on_first_device(tree: Any) -> Any:
    """By way of the host: arrays that JAX moves from device to device are bound to the last one from then on, and what
    has been compiled for others is compiled anew for them."""
    arrays, static = eqx.partition(tree, eqx.is_array)
    return eqx.combine(jax.device_put(jax.device_get(arrays)), static)
