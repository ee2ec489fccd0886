"""When episodes end: a rate that is learned from those that ended by themselves."""

from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ctmle.data.dataset import Dataset
from ctmle.envs.base import Spec
from ctmle.envs.observation import Observation
from ctmle.models.basis import input_sizes, products
from ctmle.models.networks import SHORTEST_GAP
from ctmle.models.world import Context, Survival
from ctmle.settings import Positive, option
from ctmle.training.updates import Stage, Step, Update

FIT = Stage.named("survival", 1)

NEWTON = 30
"""Most Newton steps; each is halved until the loss falls."""

RARE = -6.0
"""Mean of the prior of the log-odds of an end at a look, in the middle of the data."""


class Hazard(eqx.Module):
    """The rate at which episodes end: log-odds of an end per gap that are quadratic in the features of a state."""

    weights: Float[Array, " powers"]
    sizes: Float[Array, " features"]
    gap: Float[Array, ""]
    possible: Bool[Array, ""]
    """False as long as no episode has ended."""
    observation: Observation

    def __call__(
        self, t: Float[Array, "..."], y: Float[Array, "*batch observed"], u: Float[Array, "*batch control"]
    ) -> Float[Array, "*batch"]:
        odds = powers(self.observation.features(y) / self.sizes) @ self.weights
        return jnp.where(self.possible, jax.nn.softplus(odds) / self.gap, 0.0)


def powers(z: Float[Array, "*batch features"]) -> Float[Array, "*batch powers"]:
    """Return 1, z and its products."""
    rows, columns = products(z.shape[-1], 0)
    return jnp.concatenate([jnp.ones_like(z[..., :1]), z, z[..., rows] * z[..., columns]], axis=-1)


@dataclass(frozen=True)
class LearnedSurvival(Survival):
    """Fits, at every look, the odds that the episode ended there, by logistic regression.

    The hazard h is the rate with these odds: over a gap an end has the probability 1 - exp(-h gap).
    """

    width: Positive = option(10.0, "survival_width")
    """Standard deviation of the normal prior of the weights, for features of size 1."""

    metrics = ("ends",)

    def init(self, spec: Spec, key: PRNGKeyArray) -> Hazard:
        size = spec.observation.feature_size
        weights = jnp.zeros(1 + size + len(products(size, 0)[0]))
        return Hazard(weights, jnp.ones(size), jnp.ones(()), jnp.zeros((), bool), spec.observation)

    def stages(self, episode: int) -> tuple[Stage, ...]:
        """All work is done when the episode begins: the one update reports on it."""
        return (FIT,)

    def update(self, stage: str, state: Hazard, inputs: Context, step: Step) -> Update[Hazard]:
        ends = jnp.sum(inputs.data.ended).astype(jnp.float32)
        return state, {"ends": ends}, jnp.full(inputs.observed, jnp.nan)

    def begin(self, state: Hazard, context: Context, episode: int) -> Hazard:
        return fitted(context.spec, context.data, self.width)

    def hazard(self, state: Hazard) -> Callable[..., Array]:
        return state


@eqx.filter_jit
def fitted(spec: Spec, data: Dataset, width: float) -> Hazard:
    """Return the hazard with the largest posterior density, given at which looks episodes ended."""
    sizes = input_sizes(spec, data)[: spec.observation.feature_size]
    follows = jnp.concatenate([jnp.zeros(1, bool), data.follows])  # looks that a gap leads to
    gaps = jnp.where(follows, jnp.diff(data.times, prepend=data.times[:1]), 0.0)
    gap = jnp.maximum(jnp.sum(gaps) / jnp.maximum(jnp.sum(follows), 1), SHORTEST_GAP)
    last = data.first + data.lengths - 1
    looks = jnp.arange(len(data.times))
    episode = jnp.minimum(data.episodes_of(looks), data.capacity - 1)
    ended = data.ended[episode] & (looks == last[episode]) & follows
    x = jnp.where(follows[:, None], powers(spec.observation.features(data.states) / sizes), 0.0)
    centre = jnp.zeros(x.shape[1]).at[0].set(RARE)

    def loss(weights: Array) -> Array:
        odds = x @ weights
        each = jax.nn.softplus(odds) - jnp.where(ended, odds, 0.0)
        return jnp.sum(jnp.where(follows, each, 0.0)) + 0.5 * jnp.sum((weights - centre) ** 2) / width**2

    def newton(weights: Array, _: None) -> tuple[Array, None]:
        odds = x @ weights
        chance = jax.nn.sigmoid(odds)
        slope = x.T @ jnp.where(follows, chance - ended, 0.0) + (weights - centre) / width**2
        bend = x.T @ (x * (chance * (1 - chance))[:, None]) + jnp.eye(len(weights)) / width**2
        step = jnp.linalg.solve(bend, slope)
        tried = weights - step * 0.5 ** jnp.arange(8.0)[:, None]
        losses = jax.vmap(loss)(tried)
        best = jnp.argmin(jnp.where(jnp.isfinite(losses), losses, jnp.inf))
        return jnp.where(losses[best] < loss(weights), tried[best], weights), None

    weights, _ = jax.lax.scan(newton, centre, None, length=NEWTON)
    return Hazard(weights, sizes, gap, jnp.any(data.ended), spec.observation)
