"""What we believe: drift and diffusion networks, and an ensemble of them."""

from collections.abc import Sequence
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ctmle.dynamics.mlp import Mlp
from ctmle.envs.base import Spec
from ctmle.envs.observation import Observation

Observed = Float[Array, "*batch observed"]
Controls = Float[Array, "*batch control"]

DiffusionKind = Literal["constant", "state"]


class Dynamics(eqx.Module):
    """One believed SDE  dy = f(y, u) dt + g(y, u) dW  with diagonal g, for any leading batch axes.

    g = floor + exp(log_scale + shape(y, u)): a base level per coordinate, which moves at its own learning rate, times
    a bounded state-dependent factor (absent when the diffusion is constant).
    """

    drift_net: Mlp
    log_scale: Float[Array, " observed"]
    shape_net: Mlp | None
    observation: Observation
    floor: float = eqx.field(static=True)

    def drift(self, y: Observed, u: Controls) -> Observed:
        return self.drift_net(self._inputs(y, u))

    def diffusion(self, y: Observed, u: Controls) -> Observed:
        log_scale = jnp.broadcast_to(self.log_scale, y.shape)
        if self.shape_net is not None:
            log_scale = log_scale + jnp.tanh(self.shape_net(self._inputs(y, u)))
        return self.floor + jnp.exp(log_scale)

    def _inputs(self, y: Observed, u: Controls) -> Array:
        return jnp.concatenate([self.observation.features(y), u], axis=-1)


def init_dynamics(
    spec: Spec,
    key: PRNGKeyArray,
    *,
    hidden: Sequence[int],
    diffusion: DiffusionKind,
    floor: float,
    start_scale: float = 0.3,
) -> Dynamics:
    drift_key, shape_key = jax.random.split(key)
    observation = spec.observation
    inputs = observation.feature_size + spec.control_size
    shape_net = None
    if diffusion == "state":
        shape_net = Mlp((inputs, 64, observation.size), jnp.tanh, shape_key)
        shape_net = eqx.tree_at(lambda net: net.weights[-1], shape_net, jnp.zeros_like(shape_net.weights[-1]))
    return Dynamics(
        drift_net=Mlp((inputs, *hidden, observation.size), jax.nn.elu, drift_key),
        log_scale=jnp.full(observation.size, jnp.log(start_scale)),
        shape_net=shape_net,
        observation=observation,
        floor=floor,
    )


def init_ensemble(spec: Spec, key: PRNGKeyArray, *, members: int, **settings) -> Dynamics:
    """`members` independent beliefs stacked into one pytree: every array has a leading member axis."""
    return eqx.filter_vmap(lambda k: init_dynamics(spec, k, **settings))(jax.random.split(key, members))
