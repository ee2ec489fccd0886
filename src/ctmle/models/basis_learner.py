"""Fit a drift that is linear in its parameters to all looks, in closed form, with a posterior."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ctmle.data.dataset import Dataset
from ctmle.envs.base import Spec
from ctmle.models.basis import GIVEN, BasisSDE, functions_of, input_sizes, with_weights
from ctmle.models.belief import Belief, MeanAndSamples, Optimist
from ctmle.models.bridge import Bridge
from ctmle.models.evidence import LEAST_LEFT, Posterior, Rows, Scales, Waves, most_likely, posterior, prior_scales
from ctmle.models.kinematics import Kinematics
from ctmle.models.laws import Law, is_long
from ctmle.models.model import Ensemble
from ctmle.models.networks import SHORTEST_GAP, root_mean_square
from ctmle.models.noise import most_likely_noise
from ctmle.models.paths import Gaps, Paths, paths_between
from ctmle.models.sde_learner import FIT
from ctmle.models.world import Context, Learner
from ctmle.settings import Count, Positive, option
from ctmle.training.updates import Stage, Step, Update

PASSES, MORE_PASSES = 2, 4
"""Times that the drift is regressed, and in long gaps: where a path goes between looks follows from the time before."""


class BasisFit(eqx.Module):
    """The posterior of all weights, the scales that it rests on, and the SDEs that policies are improved in."""

    mean: Ensemble
    believed: Ensemble
    samples: Ensemble
    posterior: Posterior
    scales: Scales
    waves: Waves
    radius: Float[Array, ""]
    """That of the confidence set, for beliefs that have one."""
    key: PRNGKeyArray


@dataclass(frozen=True)
class BasisLearner(Learner):
    """Regresses what was seen to move on a basis of functions; scales and noise maximise the evidence."""

    samples: Count = option(16, "posterior_samples")
    """Models drawn from the posterior: policies are judged in all of them."""
    belief: Belief = option(MeanAndSamples(), "plan_in")
    """Models that policies are improved in: `posterior`, its mean and samples; `sample`, one of them; `set`, the best
    model of the confidence set (Algorithm 1); `penalty`, the same in its Lagrangian form (Algorithm 3)."""
    waves: Count = 100
    """Random waves in the basis of each learned coordinate, beside polynomials of degree two."""
    steps: Count = option(60, "evidence_steps")
    """Steps up the evidence per episode, for the scales of priors and noise."""
    most: Count = option(512, "evidence_looks")
    """Most gaps from which scales are found, drawn anew each episode. All of them make the posterior."""
    kinematics: bool = True
    """Learn no drift of coordinates that are known to follow their velocities."""
    law: Law = Bridge(longest_step=0.03125)
    """Density of a transition, under which the noise is estimated."""
    varying: bool = option(True, "varying_diffusion")
    """Let the noise vary with state and control if the residuals ask for it."""
    floor: Positive = option(0.01, "diffusion_floor")
    """Smallest diffusion that can be learned."""

    metrics = ("evidence", "weights_known")

    def init(self, spec: Spec, key: PRNGKeyArray) -> BasisFit:
        base, phases, key = jax.random.split(key, 3)
        known = Kinematics.of(spec, self.kinematics)
        learned, inputs = len(known.learned), spec.observation.feature_size + spec.control_size
        powers, functions = (functions_of(inputs, spec.control_size, count) for count in (0, self.waves))
        waves = Waves.drawn((base, phases), learned, inputs, self.waves)
        found = Posterior.empty(learned, functions)
        scales = Scales.initial(learned, inputs)
        units = (jnp.ones(inputs), jnp.ones(learned))
        noise = (jnp.full(known.size, self.floor), jnp.zeros((powers - 1, known.size)))

        def ensemble(count: int) -> Ensemble:
            weights = jnp.zeros((count, learned, functions))
            return _ensemble(spec, known, weights, waves, scales, units, noise)

        return BasisFit(
            ensemble(1), ensemble(self.members), ensemble(self.samples), found, scales, waves, jnp.zeros(()), key
        )

    def stages(self, episode: int) -> tuple[Stage, ...]:
        """All work is done when the episode begins: the one update reports on it."""
        return (Stage(FIT.name, 1, FIT.stream),)

    def update(self, stage: str, state: BasisFit, inputs: Context, step: Step) -> Update[BasisFit]:
        found, looks = state.posterior, jnp.maximum(jnp.sum(inputs.data.follows), 1)
        measured = (jnp.sum(found.evidence) / looks, jnp.sum(found.free))
        return state, dict(zip(self.metrics, measured, strict=True)), jnp.full(inputs.observed, jnp.nan)

    def begin(self, state: BasisFit, context: Context, episode: int) -> BasisFit:
        """Fit everything anew to all data; scales start from those of the episode before."""
        spec, data, known = context.spec, context.data, Kinematics.of(context.spec, self.kinematics)
        gaps, units = Gaps.of(spec, data, context.longest_gap, episode), _units(spec, known, data)
        for _ in range(MORE_PASSES if is_long(context.longest_gap) else PASSES):
            paths = paths_between(gaps, state.mean.member(0), self._bridge)
            state = self._regressed(state, spec, units, paths, _rows(paths, known, gaps.real))
            inflation = _inflation(known, state.posterior, jnp.sum(gaps.real))
            expected: BasisSDE = state.mean.member(0)
            told = (self.law, inflation, self.floor, self.varying)
            sde = most_likely_noise(gaps.first(self.most), expected, *told)
            noise = (sde.noise[None], sde.shape[None])
            state = eqx.tree_at(lambda s: (s.mean.stacked.noise, s.mean.stacked.shape), state, noise)
        drawn, mean = draw(state.posterior, jax.random.fold_in(state.key, episode), self.samples), state.posterior.mean
        ensembles = tuple(
            _ensemble(spec, known, weights, state.waves, state.scales, units, _noise_of(state.mean))
            for weights in (mean[None], self.belief.weights(mean, drawn), drawn)
        )
        prior = jnp.stack([prior_scales(each, self.waves, spec.control_size) for each in _unstacked(state.scales)])
        radius = jnp.asarray(self.belief.radius(state.posterior, prior, int(jnp.sum(gaps.real)), episode))
        return eqx.tree_at(lambda s: (s.mean, s.believed, s.samples, s.radius), state, (*ensembles, radius))

    def _regressed(self, state: BasisFit, spec: Spec, units: Any, paths: Paths, rows: Rows) -> BasisFit:
        """Regress what moved along given paths on the basis."""
        known, given, floor = state.mean.stacked.kinematics, (*units, spec.control_size), self.floor / units[1]
        scales = most_likely(rows.first(self.most), given, state.waves, state.scales, floor, steps=self.steps)
        found = posterior(rows, given, state.waves, scales, floor)
        noise = _noise(paths, known, rows.real, found.noise * units[1], self.floor)
        even = (noise, jnp.zeros_like(_noise_of(state.mean)[1]))
        ensemble = _ensemble(spec, known, found.mean[None], state.waves, scales, units, even)
        found_now = (ensemble, found, scales)
        return eqx.tree_at(lambda s: (s.mean, s.posterior, s.scales), state, found_now)

    def sde(self, state: BasisFit) -> Ensemble:
        return state.believed

    @property
    def _bridge(self) -> Bridge:
        """What finds the paths between looks."""
        return self.law if isinstance(self.law, Bridge) and self.law.passes > 1 else Bridge()

    @property
    def members(self) -> int:
        """Models that policies are improved in."""
        return self.belief.members(self.samples)

    def plausible(self, state: BasisFit) -> Ensemble | None:
        return state.samples if self.belief.judges_in_samples else None

    def optimist(self, state: BasisFit) -> Optimist | None:
        if not self.belief.optimistic:
            return None
        nat, found = jnp.asarray(self.belief.nat), state.posterior
        return Optimist(state.mean, found.mean, found.root, state.radius, nat)


@eqx.filter_jit
def draw(found: Posterior, key: PRNGKeyArray, count: int) -> Float[Array, "count learned functions"]:
    """Draw weights from the posterior."""
    noise = jax.random.normal(key, (count, *found.mean.shape))
    return found.mean + jnp.einsum("lfg,clg->clf", found.root, noise)


@eqx.filter_jit
def _ensemble(
    spec: Spec,
    known: Kinematics,
    weights: Float[Array, "members learned functions"],
    waves: Waves,
    scales: Scales,
    units: Any,
    noise: tuple[Array, Array],
) -> Ensemble:
    """Build the SDEs of given weights, with the same level and shape of noise."""
    frequencies = _beside(waves.frequencies * jnp.exp(-scales.lengths)[..., None])
    given = dict(zip(GIVEN, (*units, frequencies, waves.phases.reshape(-1), *noise), strict=True))
    return Ensemble(with_weights(weights, given, spec.observation, known))


def _noise_of(ensemble: Ensemble) -> tuple[Array, Array]:
    """Return the level and the shape of the noise, which all members share."""
    sde: BasisSDE = ensemble.member(0)
    return sde.noise, sde.shape


def _beside(frequencies: Float[Array, "learned inputs waves"]) -> Float[Array, "inputs all"]:
    """Put the waves of all coordinates side by side."""
    return jnp.swapaxes(frequencies, 0, 1).reshape(frequencies.shape[1], -1)


def _unstacked(scales: Scales) -> list[Scales]:
    """Return the scales of each coordinate by themselves."""
    return [jax.tree.map(lambda leaf, i=i: leaf[i], scales) for i in range(len(scales.noise))]


@eqx.filter_jit
def _units(spec: Spec, known: Kinematics, data: Dataset) -> tuple[Array, Array]:
    """Measure in which units inputs and slopes have size 1."""
    gaps = jnp.maximum(jnp.diff(data.times), SHORTEST_GAP)[:, None]
    slopes = spec.observation.residual(data.states[1:], data.states[:-1]) / gaps
    output = root_mean_square(slopes, jnp.where(data.follows[:, None], gaps, 0.0))
    return input_sizes(spec, data), output[jnp.asarray(known.learned)]


@eqx.filter_jit
def _rows(paths: Paths, known: Kinematics, real: Bool[Array, " gaps"]) -> Rows:
    seconds = jnp.maximum(paths.seconds, SHORTEST_GAP)
    moved = paths.moved[:, jnp.asarray(known.learned)]
    return Rows(paths.inputs, paths.weights, moved, seconds, real)


def _inflation(known: Kinematics, found: Posterior, count: Array) -> Float[Array, " observed"]:
    """Return by how much residuals of each coordinate are too small, because a drift was fitted to them."""
    left = jnp.maximum(1.0 - found.free / count, LEAST_LEFT)
    return jnp.ones(known.size).at[jnp.asarray(known.learned)].set(left**-0.5)


@eqx.filter_jit
def _noise(
    paths: Paths, known: Kinematics, real: Array, learned: Float[Array, " learned"], floor: float
) -> Float[Array, " observed"]:
    """Return the diffusion of all coordinates. Coordinates with known drifts have what their velocities leave.

    The path of a velocity between two looks is not known: that part of what is left has the variance g^2 gap^3 / 12.
    """
    levels = {i: learned[k] for k, i in enumerate(known.learned)}
    seconds = jnp.maximum(paths.seconds, SHORTEST_GAP)
    for i, j in known.pairs:
        left = paths.moved[:, i] - paths.seconds * (paths.states[..., j] @ paths.weights)
        unseen = levels[j] ** 2 * seconds**2 / 12 if j in levels else 0.0
        power = jnp.sum(jnp.where(real, left**2 / seconds - unseen, 0.0)) / jnp.sum(real)
        levels[i] = jnp.sqrt(jnp.maximum(power, floor**2))
    return jnp.stack([jnp.maximum(levels[i], floor) for i in range(known.size)])
