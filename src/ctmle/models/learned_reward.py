"""A reward that is learned from what a plant paid: linear in its parameters, with a posterior in closed form."""

from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ctmle.data.dataset import Dataset
from ctmle.envs.base import Spec
from ctmle.models.basis import BasisReward, functions_of, input_sizes, multipliers
from ctmle.models.bridge import Bridge
from ctmle.models.evidence import Posterior, Rows, Scales, Waves, most_likely, posterior
from ctmle.models.networks import SHORTEST_GAP
from ctmle.models.paths import Gaps, Paths, paths_between
from ctmle.models.world import Context, Reward
from ctmle.settings import Count, option
from ctmle.training.updates import Stage, Step, Update

FIT = Stage.named("reward", 1)

CONTROLS_APART = 0
"""Controls of which the basis has no products: none, for a reward may well depend on the square of a control."""

FLOOR = 1e-3
"""Smallest noise of a reward, as a share of the range of what was measured."""


class RewardFit(eqx.Module):
    """The learned reward in units of the range of what was measured, and the posterior that it is the mean of."""

    reward: BasisReward
    unit: Float[Array, ""]
    posterior: Posterior
    scales: Scales
    waves: Waves


@dataclass(frozen=True)
class LearnedReward(Reward):
    """Fits the measured integrals of the reward over gaps; policies are improved for the posterior mean."""

    waves: Count = option(100, "reward_waves")
    """Random waves in the basis of the reward, beside polynomials of degree two."""
    steps: Count = option(60, "reward_steps")
    """Steps up the evidence per episode, for the scales of priors and noise."""
    most: Count = option(512, "reward_looks")
    """Most gaps from which scales are found, drawn anew each episode. All of them make the posterior."""

    metrics = ("reward_noise", "reward_spread")

    def init(self, spec: Spec, key: PRNGKeyArray) -> RewardFit:
        base, phases = jax.random.split(key)
        inputs = spec.observation.feature_size + spec.control_size
        waves = Waves.drawn((base, phases), 1, inputs, self.waves)
        found = Posterior.empty(1, functions_of(inputs, CONTROLS_APART, self.waves))
        scales, unit = Scales.initial(1, inputs), jnp.ones(())
        return RewardFit(_reward(spec, found, waves, scales, jnp.ones(inputs)), unit, found, scales, waves)

    def stages(self, episode: int) -> tuple[Stage, ...]:
        """All work is done when the episode begins: the one update reports on it."""
        return (FIT,)

    def update(self, stage: str, state: RewardFit, inputs: Context, step: Step) -> Update[RewardFit]:
        known = state.posterior.root
        spread = jnp.sqrt(jnp.mean(jnp.sum(known**2, axis=-1)))
        measured = (state.posterior.noise[0] * state.unit, spread * state.unit)
        return state, dict(zip(self.metrics, measured, strict=True)), jnp.full(inputs.observed, jnp.nan)

    def begin(self, state: RewardFit, context: Context, episode: int) -> RewardFit:
        """Fit everything anew to all data. Raises ValueError if no reward was measured."""
        spec, data = context.spec, context.data
        if not bool(jnp.any(data.paid)):
            raise ValueError(
                "no trajectory has rewards to learn from: give each its `rewards`, the integral over every gap, or give"
                " the spec a reward function and use --reward known"
            )
        gaps = Gaps.of(spec, data, context.longest_gap, episode)
        paths = paths_between(gaps, context.world.sde.member(0), Bridge())
        rows = _rows(paths, data, gaps)
        unit, sizes = _unit(rows), input_sizes(spec, data)
        given = (sizes, unit[None], CONTROLS_APART)
        floor = jnp.full(1, FLOOR)
        scales = most_likely(rows.first(self.most), given, state.waves, state.scales, floor, steps=self.steps)
        found = posterior(rows, given, state.waves, scales, floor)
        return RewardFit(_reward(spec, found, state.waves, scales, sizes), unit, found, scales, state.waves)

    def reward(self, state: RewardFit) -> Callable[..., Array]:
        return state.reward

    def unit(self, state: RewardFit) -> Float[Array, ""]:
        return state.unit


@eqx.filter_jit
def _reward(spec: Spec, found: Posterior, waves: Waves, scales: Scales, sizes: Float[Array, " inputs"]) -> BasisReward:
    frequencies = (waves.frequencies * jnp.exp(-scales.lengths)[..., None])[0]
    phases = waves.phases[0]
    return BasisReward(
        input_scale=sizes,
        output_scale=jnp.ones(1),
        frequencies=frequencies,
        phases=phases,
        observation=spec.observation,
        **multipliers(found.mean, len(sizes), len(phases)),
    )


@eqx.filter_jit
def _rows(paths: Paths, data: Dataset, gaps: Gaps) -> Rows:
    real: Bool[Array, " gaps"] = gaps.real & data.paid[data.episodes_of(gaps.places)]
    seconds = jnp.maximum(paths.seconds, SHORTEST_GAP)
    return Rows(paths.inputs, paths.weights, data.rewards[gaps.places][:, None], seconds, real)


@eqx.filter_jit
def _unit(rows: Rows) -> Float[Array, ""]:
    """Return the range of measured rewards per second, 0 included."""
    rates = jnp.where(rows.real, rows.moved[:, 0] / rows.seconds, 0.0)
    return jnp.maximum(jnp.max(rates) - jnp.min(rates), 1e-6)
