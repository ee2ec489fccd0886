"""What we believe: drift and diffusion networks, and an ensemble of them."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ctmle.data.dataset import Dataset
from ctmle.dynamics.mlp import FixedMlp, Mlp
from ctmle.envs.base import Spec
from ctmle.envs.observation import Observation

Observed = Float[Array, "*batch observed"]
Controls = Float[Array, "*batch control"]

SHORTEST_GAP = 1e-3
"""Seconds. Gaps are not taken to be shorter than this: a random look can land on a grid look."""

DRIFT_BOUND = 30.0
"""A belief's drift is at most this many times the size of the first data's slopes: off the data a network
extrapolates, and without a bound imagined trajectories that leave the data run away."""

START_SHARE = 0.3
"""Where the diffusion starts, as a share of its ceiling."""

DiffusionKind = Literal["none", "constant", "state"]


@runtime_checkable
class SDE(Protocol):
    """Anything with a drift and a diagonal diffusion over batches of observed states and controls."""

    def drift(self, y: Observed, u: Controls) -> Observed: ...
    def diffusion(self, y: Observed, u: Controls) -> Observed: ...


class Dynamics(eqx.Module):
    """One believed SDE  dy = f(y, u) dt + g(y, u) dW  with diagonal g, for any leading batch axes.

    g = exp(log_scale + shape(y, u)) above a floor and below a ceiling: a base level per coordinate, which moves at its
    own learning rate, times a bounded state-dependent factor (absent when the diffusion is constant). The networks see
    inputs and give drifts in units in which the first data has size 1; the ceiling is the diffusion that would explain
    that data without any drift (`fit_scales`). These scales are measured, not trained. A belief in an ODE has no
    `log_scale`, and g = 0.
    """

    input_scale: Float[Array, "*members inputs"]
    drift_scale: Float[Array, "*members observed"]
    diffusion_ceiling: Float[Array, "*members observed"]
    drift_net: Mlp | FixedMlp
    log_scale: Float[Array, "*members observed"] | None
    shape_net: Mlp | FixedMlp | None
    observation: Observation
    floor: float = eqx.field(static=True)

    def drift(self, y: Observed, u: Controls) -> Observed:
        return self.drift_scale * DRIFT_BOUND * jnp.tanh(self.drift_net(self._inputs(y, u)) / DRIFT_BOUND)

    def diffusion(self, y: Observed, u: Controls) -> Observed:
        if self.log_scale is None:
            return jnp.zeros_like(y)
        log_scale = jnp.broadcast_to(self.log_scale, y.shape)
        if self.shape_net is not None:
            log_scale = log_scale + 2.0 * jnp.tanh(self.shape_net(self._inputs(y, u)))
        return self.floor + self.diffusion_ceiling * jnp.tanh(jnp.exp(log_scale) / self.diffusion_ceiling)

    def _inputs(self, y: Observed, u: Controls) -> Array:
        return jnp.concatenate([self.observation.features(y), u], axis=-1) / self.input_scale


def init_dynamics(
    spec: Spec,
    key: PRNGKeyArray,
    *,
    hidden: Sequence[int],
    diffusion: DiffusionKind,
    floor: float,
) -> Dynamics:
    drift_key, shape_key = jax.random.split(key)
    observation = spec.observation
    inputs = observation.feature_size + spec.control_size
    shape_net = None
    if diffusion == "state":
        shape_net = Mlp((inputs, 64, observation.size), jnp.tanh, shape_key)
        shape_net = eqx.tree_at(lambda net: net.weights[-1], shape_net, jnp.zeros_like(shape_net.weights[-1]))
    return Dynamics(
        input_scale=jnp.ones(inputs),
        drift_scale=jnp.ones(observation.size),
        diffusion_ceiling=jnp.ones(observation.size),
        drift_net=Mlp((inputs, *hidden, observation.size), jax.nn.elu, drift_key),
        log_scale=None if diffusion == "none" else jnp.zeros(observation.size) + math.log(START_SHARE),
        shape_net=shape_net,
        observation=observation,
        floor=floor,
    )


@eqx.filter_jit
def fit_scales(ensemble: Dynamics, spec: Spec, data: Dataset) -> Dynamics:
    """Measure the sizes of inputs and of slopes between looks in `data`, for the networks to work in."""
    real = data.real
    inputs = jnp.concatenate([spec.observation.features(data.states), data.controls], axis=-1)
    gaps = jnp.maximum(jnp.diff(data.times, axis=1), SHORTEST_GAP)[..., None]
    slopes = spec.observation.residual(data.states[:, 1:], data.states[:, :-1]) / gaps
    counted = jnp.where(real[:, 1:, None], gaps, 0.0)

    def size(values: Array, weights: Array) -> Array:
        """Root mean square, weighted."""
        return jnp.maximum(jnp.sqrt(jnp.sum(weights * values**2, axis=(0, 1)) / jnp.sum(weights)), 1e-3)

    def for_each_member(scale: Array) -> Array:
        return jnp.broadcast_to(scale, (ensemble.drift_scale.shape[0], *scale.shape))

    ceiling = size(slopes * jnp.sqrt(gaps), counted)
    return dataclasses.replace(
        ensemble,
        input_scale=for_each_member(size(inputs, real[..., None].astype(inputs.dtype))),
        # A slope over a short gap is mostly noise: it counts by the gap's length.
        drift_scale=for_each_member(size(slopes, counted)),
        diffusion_ceiling=for_each_member(ceiling),
        log_scale=None if ensemble.log_scale is None else for_each_member(jnp.log(START_SHARE * ceiling)),
    )


def trained_part(dynamics: Dynamics) -> tuple[Dynamics, Dynamics]:
    """The arrays that are trained, and all else: scales are measured, so no gradient or optimiser knows of them."""
    trained = jax.tree.map(eqx.is_array, dynamics)
    measured = lambda d: (d.input_scale, d.drift_scale, d.diffusion_ceiling)  # noqa: E731
    return eqx.partition(dynamics, eqx.tree_at(measured, trained, (False, False, False)))


def init_ensemble(spec: Spec, key: PRNGKeyArray, *, members: int, **settings) -> Dynamics:
    """`members` independent beliefs stacked into one pytree: every array has a leading member axis."""
    return eqx.filter_vmap(lambda k: init_dynamics(spec, k, **settings))(jax.random.split(key, members))
