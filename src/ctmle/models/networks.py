"""Models whose drift and diffusion are neural networks."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ctmle.data.dataset import Dataset
from ctmle.envs.base import Spec
from ctmle.envs.observation import Observation
from ctmle.models.kinematics import Kinematics
from ctmle.models.model import SDE, Controls, Ensemble, Model, Noise, Observed
from ctmle.settings import Positive, Widths, option
from ctmle.training.mlp import FixedMlp, Mlp

SHORTEST_GAP = 1e-3
"""Seconds. Shorter gaps are taken to be this long: a random look can land on a grid look."""

DRIFT_BOUND = 30.0
"""Largest drift, in units of the first data's slopes: off the data a network extrapolates, and without a bound imagined
trajectories that leave the data run away."""

START_SHARE = 0.3
"""Where the diffusion starts, as a share of its ceiling."""

SHAPE_WIDTH = 64
"""Hidden width of the network that shapes a state-dependent diffusion."""


class NetworkSDE(SDE):
    """A learned SDE  dy = f(y, u) dt + g(y, u) dW  for any leading batch axes.

    The noise level of a coordinate is exp(log_scale + shape(y, u)) above a floor and below a ceiling: a base level,
    which moves at its own learning rate, times a bounded state-dependent factor (absent when the diffusion is
    constant). The networks take inputs and give drifts in units in which the first data has size 1; the ceiling is the
    diffusion that would explain that data without any drift (`measure_scales`). These scales are measured, not trained.
    An ODE has no `log_scale`, and g = 0.

    Without `correlations`, g is diagonal with these levels. Otherwise g = diag(levels) C with C lower triangular: 1 on
    the diagonal and `correlations` below it, then every row divided by its norm. So sqrt(diag(gg')) are the levels, and
    CC' is the correlation matrix of the noise, the same at all states.
    """

    input_scale: Float[Array, "*members inputs"]
    drift_scale: Float[Array, "*members observed"]
    diffusion_ceiling: Float[Array, "*members observed"]
    drift_net: Mlp | FixedMlp
    log_scale: Float[Array, "*members observed"] | None
    shape_net: Mlp | FixedMlp | None
    correlations: Float[Array, "*members pairs"] | None
    observation: Observation
    kinematics: Kinematics
    floor: float = eqx.field(static=True)

    def drift(self, y: Observed, u: Controls) -> Observed:
        scale = self.drift_scale[jnp.asarray(self.kinematics.learned)]
        return self.kinematics.completed(y, bounded(self.drift_net(self._inputs(y, u)), scale))

    def diffusion(self, y: Observed, u: Controls) -> Noise:
        if self.log_scale is None:
            return jnp.zeros_like(y)
        log_scale = jnp.broadcast_to(self.log_scale, y.shape)
        if self.shape_net is not None:
            log_scale = log_scale + 2.0 * jnp.tanh(self.shape_net(self._inputs(y, u)))
        levels = self.floor + self.diffusion_ceiling * jnp.tanh(jnp.exp(log_scale) / self.diffusion_ceiling)
        if self.correlations is None:
            return levels
        size = y.shape[-1]
        rows = jnp.eye(size, dtype=y.dtype).at[np.tril_indices(size, -1)].set(self.correlations)
        return levels[..., None] * (rows / jnp.linalg.norm(rows, axis=-1, keepdims=True))

    def _inputs(self, y: Observed, u: Controls) -> Array:
        return jnp.concatenate([self.observation.features(y), u], axis=-1) / self.input_scale


def bounded(drift: Array, scale: Float[Array, "*learned"]) -> Array:
    """Return a drift given in units of `scale`, at most `DRIFT_BOUND` of them."""
    return scale * DRIFT_BOUND * jnp.tanh(drift / DRIFT_BOUND)


@dataclass(frozen=True)
class DiagonalNetwork(Model):
    """A drift network, and a diffusion with a level per coordinate; correlated between coordinates if it is full."""

    hidden: Widths = option((200, 200, 200), "dynamics_hidden")
    """Hidden widths of each member's drift network (ELU)."""
    kinematics: bool = True
    """Learn no drift of coordinates that are known to follow their velocities."""
    diffusion: Literal["constant", "state"] = "state"
    """Whether the learned diffusion depends on the state."""
    floor: Positive = option(0.01, "diffusion_floor")
    """Smallest diffusion that can be learned; it keeps the likelihood finite when sigma is 0."""
    diffusion_rate: Positive = 10.0
    """How many times faster the level of the diffusion learns than the drift."""
    matrix: Literal["diagonal", "full"] = option("diagonal", "diffusion_matrix")
    """Whether the learned noise may be correlated between coordinates: no (diagonal), or with a correlation for every
    two of them, the same at all states (full)."""

    def init(self, spec: Spec, key: PRNGKeyArray, members: int) -> Ensemble:
        def one(key: PRNGKeyArray) -> NetworkSDE:
            drift_key, shape_key = jax.random.split(key)
            size = spec.observation.size
            shape_net = None
            if self.diffusion == "state":
                shape_net = Mlp((_inputs(spec), SHAPE_WIDTH, size), jnp.tanh, shape_key)
                shape_net = eqx.tree_at(lambda net: net.weights[-1], shape_net, jnp.zeros_like(shape_net.weights[-1]))
            log_scale = jnp.zeros(size) + math.log(START_SHARE)
            correlations = jnp.zeros(size * (size - 1) // 2) if self.matrix == "full" else None
            return _network(spec, self, drift_key, log_scale, shape_net, correlations, self.floor)

        return Ensemble(eqx.filter_vmap(one)(jax.random.split(key, members)))

    def measure(self, ensemble: Ensemble, spec: Spec, data: Dataset) -> Ensemble:
        return measure_scales(ensemble, spec, data)

    def rates(self, ensemble: Ensemble) -> Ensemble:
        rates = eqx.tree_at(lambda e: e.stacked.log_scale, _rates(ensemble), self.diffusion_rate)
        if self.matrix == "diagonal":
            return rates
        return eqx.tree_at(lambda e: e.stacked.correlations, rates, self.diffusion_rate)


@dataclass(frozen=True)
class DriftNetwork(Model):
    """A drift network and no diffusion: an ODE."""

    hidden: Widths = option((200, 200, 200), "dynamics_hidden")
    """Hidden widths of each member's drift network (ELU)."""
    kinematics: bool = True
    """Learn no drift of coordinates that are known to follow their velocities."""

    def init(self, spec: Spec, key: PRNGKeyArray, members: int) -> Ensemble:
        def one(key: PRNGKeyArray) -> NetworkSDE:
            return _network(spec, self, jax.random.split(key)[0], None, None, None, 0.0)

        return Ensemble(eqx.filter_vmap(one)(jax.random.split(key, members)), ode=True)

    def measure(self, ensemble: Ensemble, spec: Spec, data: Dataset) -> Ensemble:
        return measure_scales(ensemble, spec, data)

    def rates(self, ensemble: Ensemble) -> Ensemble:
        return _rates(ensemble)


def _network(
    spec: Spec,
    like: DiagonalNetwork | DriftNetwork,
    key: PRNGKeyArray,
    log_scale: Float[Array, " observed"] | None,
    shape_net: Mlp | None,
    correlations: Float[Array, " pairs"] | None,
    floor: float,
) -> NetworkSDE:
    observation, inputs, known = spec.observation, _inputs(spec), Kinematics.of(spec, like.kinematics)
    return NetworkSDE(
        input_scale=jnp.ones(inputs),
        drift_scale=jnp.ones(observation.size),
        diffusion_ceiling=jnp.ones(observation.size),
        drift_net=Mlp((inputs, *like.hidden, len(known.learned)), jax.nn.elu, key),
        log_scale=log_scale,
        shape_net=shape_net,
        correlations=correlations,
        observation=observation,
        kinematics=known,
        floor=floor,
    )


def _inputs(spec: Spec) -> int:
    return spec.observation.feature_size + spec.control_size


def _rates(ensemble: Ensemble) -> Ensemble:
    ones = jax.tree.map(lambda leaf: 1.0, ensemble)
    return eqx.tree_at(
        lambda e: (e.stacked.input_scale, e.stacked.drift_scale, e.stacked.diffusion_ceiling), ones, (0.0, 0.0, 0.0)
    )


@eqx.filter_jit
def measure_scales(ensemble: Ensemble, spec: Spec, data: Dataset) -> Ensemble:
    """Measure the sizes of inputs and of slopes between looks in `data`, for the networks to work in."""
    real, members = data.real, ensemble.members
    inputs = jnp.concatenate([spec.observation.features(data.states), data.controls], axis=-1)
    gaps = jnp.maximum(jnp.diff(data.times), SHORTEST_GAP)[:, None]
    slopes = spec.observation.residual(data.states[1:], data.states[:-1]) / gaps
    counted = jnp.where(data.follows[:, None], gaps, 0.0)

    def for_each_member(scale: Array) -> Array:
        return jnp.broadcast_to(scale, (members, *scale.shape))

    ceiling = root_mean_square(slopes * jnp.sqrt(gaps), counted)
    log_scale = None if ensemble.stacked.log_scale is None else for_each_member(jnp.log(START_SHARE * ceiling))
    measured = dataclasses.replace(
        ensemble.stacked,
        input_scale=for_each_member(root_mean_square(inputs, real[:, None].astype(inputs.dtype))),
        # A slope over a short gap is mostly noise: it counts by the gap's length.
        drift_scale=for_each_member(root_mean_square(slopes, counted)),
        diffusion_ceiling=for_each_member(ceiling),
        log_scale=log_scale,
    )
    return Ensemble(measured, ensemble.ode)


def root_mean_square(values: Array, weights: Array) -> Array:
    """Compute the weighted root mean square of every column, at least 1e-3."""
    return jnp.maximum(jnp.sqrt(jnp.sum(weights * values**2, axis=0) / jnp.sum(weights)), 1e-3)
