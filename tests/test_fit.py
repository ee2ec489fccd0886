"""One dynamics update: what is trained and how fast, how gradients are clipped, how far optimism leans."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ctmle.data import Dataset, Recorded, Trajectory, sample_transitions
from ctmle.envs import Pendulum
from ctmle.models import (
    Context,
    DiagonalNetwork,
    DriftNetwork,
    Gap,
    NegativeLogLikelihood,
    Optimism,
    SDELearner,
    SlicedScoreMatching,
    World,
)
from ctmle.models.model import at_rates, trained_part
from ctmle.models.optimism import LARGEST_LEAN
from ctmle.models.world import SpecReward
from ctmle.planning import ActorCritic, Policy, init_feedback, random_signal, silent_signal
from ctmle.plants import simulate
from ctmle.schedules import Equidistant
from ctmle.training import Adam, Span, Step, run_updates

ENV = Pendulum(horizon=4.0)
SPEC = ENV.spec


@functools.cache
def some_data() -> Dataset:
    data = None
    for number in range(2):
        key = jax.random.key(number)
        policy = Policy(init_feedback(SPEC, key, (8,)), random_signal(SPEC, key), jnp.zeros(()))
        looks = Equidistant(0.125).looks(key, 4.0)
        trajectory = simulate(ENV, policy, looks, key, step=0.05)
        data = (Dataset.empty(trajectory, 2) if data is None else data).add(trajectory)
    assert data is not None
    return data


def learner_with(**changes) -> SDELearner:
    model = DiagonalNetwork(hidden=(16, 16), diffusion="constant")
    return SDELearner(**{"members": 2, "updates": 50, "model": model, "optimism": None, **changes})


def context_of(data: Dataset, learner: SDELearner, fit) -> Context:
    improver = ActorCritic(hidden=(8,))
    return Context(
        spec=SPEC,
        data=data,
        world=World(learner.sde(fit), SpecReward(SPEC)),
        values=improver.values(improver.init(SPEC, jax.random.key(0))),
        episode=jnp.asarray(1, jnp.int32),
        longest_gap=0.125,
    )


def fit_of(data: Dataset, learner: SDELearner):
    """Return a learner's state with its scales measured, and the context of its updates."""
    fit = learner.init(SPEC, jax.random.key(0))
    fit = learner.begin(fit, context_of(data, learner, fit), 1)
    return fit, context_of(data, learner, fit)


def signed_advantage(batch) -> jax.Array:
    """Of either sign, with a few samples far larger than the rest."""
    wave = jnp.sin(7.0 * batch.y[..., 1]) * jnp.exp(2.0 * jnp.abs(batch.y[..., 1]))
    return 3e-4 * wave


@pytest.mark.parametrize("objective", [NegativeLogLikelihood(), SlicedScoreMatching(0, False), SlicedScoreMatching(0)])
def test_optimism_reaches_its_share_of_the_gradient_and_no_sample_repels_the_model(objective):
    """The ratio is looked at where it acts: in gradients by the law's mean, sample by sample, and by parameters."""
    data, share = some_data(), 0.1
    learner = learner_with(objective=objective)
    fit, _ = fit_of(data, learner)
    key = jax.random.key(3)
    batch = sample_transitions(data, key, subsequences=5, length=5, chained=False)
    bonus = signed_advantage(batch)
    lean, weight = Optimism().lean(bonus, jnp.asarray(2))
    assert float(weight * jnp.mean(jnp.abs(bonus))) == pytest.approx(share)
    assert float(jnp.max(jnp.abs(lean))) == LARGEST_LEAN  # some samples are capped
    control = lambda t, y: jnp.zeros((*y.shape[:-1], 1))  # noqa: E731
    member = jax.tree.map(lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, fit.ensemble.stacked)
    law = eqx.filter_jit(learner.law)(member, Gap(control, batch.t, batch.y, batch.gap, 0.125))
    residual = SPEC.observation.residual(batch.y_next, law.mean)

    of_fitting = jax.grad(lambda r: jnp.sum(objective(law, r, batch.gap, key)))
    of_planning = jax.grad(lambda r: jnp.sum(lean * objective.leverage(law, batch.gap) * law.log_prob(r)))
    fitting, planning = jax.jit(of_fitting)(residual), jax.jit(of_planning)(residual)
    along = jnp.sum(fitting * (fitting - planning), axis=-1)
    assert np.all(np.asarray(along) > 0)  # every sample still attracts the mean
    curved = [jax.jit(jax.jacfwd(gradient))(residual) for gradient in (of_fitting, of_planning)]
    of_samples = [np.einsum("gsigsj->gsij", curvature) for curvature in curved]
    ratios = np.abs(np.linalg.eigvals(np.linalg.solve(*of_samples))).max(axis=-1)
    assert 0.4 * share < ratios.mean() < 1.1 * share

    def by_parameters(weights):
        trained, fixed = trained_part(learner.model, fit.ensemble)

        def losses(sde):
            law = learner.law(sde, Gap(batch.drives.control(SPEC), batch.t, batch.y, batch.gap, 0.125))
            residual = SPEC.observation.residual(batch.y_next, law.mean)
            leverage = jax.lax.stop_gradient(objective.leverage(law, batch.gap))
            of_sample = weights[0] * objective(law, residual, batch.gap, key)
            return of_sample + weights[1] * lean * leverage * law.log_prob(residual)

        def loss(trained):
            return jnp.mean(eqx.filter_vmap(losses)(eqx.combine(trained, fixed).stacked))

        gradient = eqx.filter_jit(eqx.filter_grad(loss))(trained)
        return np.sqrt(sum(float(jnp.sum(leaf**2)) for leaf in jax.tree.leaves(gradient)))

    assert 0.001 < by_parameters((0.0, 1.0)) / by_parameters((1.0, 0.0)) < 0.3


def test_scales_are_measured_and_neither_differentiated_nor_known_to_the_optimiser():
    data, learner = some_data(), learner_with()
    fit, context = fit_of(data, learner)
    trained, fixed = trained_part(learner.model, fit.ensemble)
    for name in SCALES:
        assert getattr(trained.stacked, name) is None
        assert getattr(fixed.stacked, name) is not None
    counts = [len(jax.tree.leaves(eqx.filter(tree, eqx.is_array))) for tree in (trained, fit.optimiser)]
    assert counts[1] == 2 * counts[0] + 1  # Adam's two moments, and its counter
    after = run_updates(learner, "dynamics", context, fit, Span.of(0, 3, jax.random.key(0))).state
    for name in SCALES:
        np.testing.assert_array_equal(getattr(after.ensemble.stacked, name), getattr(fit.ensemble.stacked, name))
    before, now = (f.ensemble.stacked.log_scale for f in (fit, after))
    assert before is not None
    assert now is not None
    assert not np.array_equal(before, now)


def test_scales_are_measured_before_the_first_episode_only():
    data, learner = some_data(), learner_with()
    fit, context = fit_of(data, learner)
    assert not np.any(np.asarray(fit.ensemble.stacked.drift_scale) == 1.0)
    assert learner.begin(fit, context, 2) is fit


SCALES = ("input_scale", "drift_scale", "diffusion_ceiling")


@pytest.mark.parametrize(
    ("model", "level"), [(DiagonalNetwork(hidden=(8,), diffusion_rate=7.0), 7.0), (DriftNetwork(hidden=(8,)), None)]
)
def test_rates_say_which_arrays_are_trained_and_how_fast(model, level):
    ensemble = model.init(SPEC, jax.random.key(0), 2)
    rates = model.rates(ensemble)
    trained, fixed = trained_part(model, ensemble)
    assert all(getattr(rates.stacked, name) == 0 for name in SCALES)
    assert len(jax.tree.leaves(eqx.filter(fixed, eqx.is_array))) == len(SCALES)
    ones = jax.tree.map(jnp.ones_like, trained)
    scaled = at_rates(model, ensemble, ones)
    assert jax.tree.structure(scaled) == jax.tree.structure(trained)
    for name in ("drift_net", "shape_net"):
        for leaf in jax.tree.leaves(getattr(scaled.stacked, name)):
            np.testing.assert_array_equal(leaf, 1.0)
    if level is None:
        assert scaled.stacked.log_scale is None
    else:
        np.testing.assert_array_equal(scaled.stacked.log_scale, level)
    again = eqx.combine(trained, fixed)
    assert jax.tree.structure(again) == jax.tree.structure(ensemble)


def test_each_member_is_clipped_by_its_own_norm():
    """A member whose gradient is a thousand times too large does not slow the others down."""
    adam = Adam(10, 1e-3, clip=1.0)
    parameters = jnp.zeros((2, 3))
    gradient = jnp.asarray([[1e3, 0.0, 0.0], [0.0, 0.5, 0.0]])
    step = Step(jnp.asarray(0), jnp.asarray(1.0), jax.random.key(0))
    norms = jnp.linalg.norm(gradient, axis=1)
    _, state = adam(parameters, gradient, norms, adam.init(parameters), step)
    moments = next(leaf for leaf in jax.tree.leaves(state) if leaf.shape == (2, 3))
    np.testing.assert_allclose(moments, 0.1 * np.array([[1.0, 0.0, 0.0], [0.0, 0.5, 0.0]]), rtol=1e-6)


def test_recorded_controls_give_the_losses_of_the_policy_that_applied_them(count_calls):
    """A constant control, as a policy in closed loop or as a record of it. Longer episodes trace nothing."""
    traces = count_calls(SDELearner, "update")
    still = Policy(init_feedback(SPEC, jax.random.key(0), (8,)), silent_signal(SPEC, 3), jnp.zeros(()))
    record = Recorded(jnp.linspace(0.0, 6.0, 50, endpoint=False), jnp.zeros((50, 1)))
    learner, losses = learner_with(rate=1.3e-3), {}
    for drives in ((still, still), (record, record), (record, still)):
        data = None
        for drive, seconds in zip(drives, (4.0, 6.0), strict=True):
            looks = Equidistant(0.125).looks(jax.random.key(1), seconds)
            seen = simulate(ENV, still, looks, jax.random.key(2), step=0.05)
            trajectory = Trajectory(seen.times, seen.states, seen.controls, drive, seen.random)
            data = (Dataset.empty(trajectory, 4) if data is None else data).add(trajectory)
            fit, context = fit_of(data, learner)
            outcome = run_updates(learner, "dynamics", context, fit, Span.of(0, 3, jax.random.key(3)))
            found = [float(outcome.metrics[name]) for name in ("dynamics_loss", "dynamics_gradient")]
            np.testing.assert_allclose(found, losses.setdefault(seconds, found), rtol=1e-5)
    assert traces["SDELearner.update"] == 3
