"""What ENODE is made of: predictions and losses against diffrax and scipy, slopes, curves through controls."""

from functools import partial
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats
from scipy.interpolate import CubicHermiteSpline

from ctmle.data import Dataset, Drives, Sequences, Trajectory, sample_sequences as sample_eagerly
from ctmle.envs import Pendulum, Spec
from ctmle.envs.observation import Observation
from ctmle.models import SDE, Context, DriftNetwork, ODELearner, World
from ctmle.models.prediction import interpolated, match_slopes, predict_looks
from ctmle.models.world import SpecReward
from ctmle.planning import ActorCritic, Policy, init_feedback, random_signal, rollout
from ctmle.plants import simulate
from ctmle.training import Outcome, Span, run_updates

pytestmark = pytest.mark.usefixtures("x64")

SPEC = Pendulum().spec
FLOOR = 0.01


LONGEST_GAP = 0.1

# Compiled as a whole: one by one, their operations would be hundreds of small programs.
sample_sequences = eqx.filter_jit(sample_eagerly)


@eqx.filter_jit
def random_policies(keys) -> Policy:
    """Return a random policy for each key."""

    def policy(key) -> Policy:
        return Policy(init_feedback(SPEC, key, (8,)), random_signal(SPEC, key), jnp.ones(()))

    return eqx.filter_vmap(policy)(keys)


@eqx.filter_jit
def interpolated_control(batch: Sequences, t, y):
    return interpolated(SPEC, batch)(t, y)


def learner_with(segments: int = 1, updates: int = 200, rate: float = 5e-3, **changes) -> ODELearner:
    """A learner of two members whose integrator takes so many steps to each gap."""
    settings = {
        "members": 2, "updates": updates, "matching_updates": updates, "rate": rate, "matching_rate": rate,
        "batch": 8, "matching_batch": 8, "length": 5, "weight_decay": 0.0, "noise": "fixed", "noise_floor": FLOOR,
        "solver": "rk4", "longest_step": LONGEST_GAP / segments, "model": DriftNetwork(hidden=(16, 16)),
    }  # fmt: skip
    return ODELearner(**(settings | changes))


def trained(
    learner: ODELearner, stage: str, data: Dataset, fit, first: int, count: int, key: int, spec=SPEC
) -> Outcome:
    """Run some updates of a stage."""
    improver = ActorCritic(hidden=(8,))
    values = improver.values(improver.init(SPEC, jax.random.key(0)))
    world = World(learner.sde(fit), SpecReward(spec))
    context = Context(spec, data, world, values, jnp.asarray(1, jnp.int32), LONGEST_GAP)
    return run_updates(learner, stage, context, fit, Span.of(first, count, jax.random.key(key)))


@eqx.filter_jit
def losses_of(learner: ODELearner, prediction, ensemble, log_noise, batch: Sequences):
    """Return the loss of every predicted look under every member."""
    return eqx.filter_vmap(lambda sde, noise: learner.losses(prediction(SPEC, sde, batch), noise)[0])(
        ensemble.stacked, log_noise
    )


def ensemble_of(members: int, key: int = 0, kinematics: bool = True):
    return DriftNetwork(hidden=(16, 16), kinematics=kinematics).init(SPEC, jax.random.key(key), members)


def member_of(tree, i):
    return jax.tree.map(lambda leaf: leaf[i] if eqx.is_array(leaf) else leaf, tree)


def random_sequences(groups: int, looks: int, seed: int = 0) -> Sequences:
    """Irregular times, each stretch under a policy of its own."""
    random = np.random.default_rng(seed)
    keys = jax.random.split(jax.random.key(seed), groups)
    return Sequences(
        t=jnp.asarray(np.cumsum(random.uniform(0.03, 0.2, (groups, looks)), axis=1)),
        y=jnp.asarray(random.normal(size=(groups, looks, 2))),
        u=jnp.asarray(random.uniform(-1, 1, (groups, looks, 1))),
        u_slope=jnp.asarray(random.normal(size=(groups, looks, 1))),
        real=jnp.ones((groups, looks), bool),
        drives=Drives.closed(random_policies(keys), groups),
    )


def looks_by(segments: int, control: Any):
    return partial(predict_looks, segments=segments, solver="rk4", control=control)


def reference_paths(ensemble, batch: Sequences, control: str) -> jax.Array:
    """Every stretch under every member, by adaptive steps of diffrax; curves through controls are scipy's."""
    curves = [CubicHermiteSpline(*rows) for rows in zip(batch.t, batch.u, batch.u_slope, strict=True)]
    return _reference_paths(ensemble, batch, jnp.asarray(np.stack([curve.c for curve in curves])), control)


@eqx.filter_jit
def _reference_paths(ensemble, batch: Sequences, coefficients, control: str):
    def path(sde, policy, c, t, start):
        def u(s, y):
            if control == "closed-loop":
                return policy(s, y)
            piece = jnp.clip(jnp.searchsorted(t, s, side="right") - 1, 0, t.shape[0] - 2)
            return jnp.clip((s - t[piece]) ** jnp.arange(3.0, -1.0, -1.0) @ c[:, piece], -2, 2)

        return diffrax.diffeqsolve(
            diffrax.ODETerm(lambda s, y, _: sde.drift(y, u(s, y))),
            diffrax.Tsit5(),
            t0=t[0],
            t1=t[-1],
            dt0=0.01,
            y0=start,
            saveat=diffrax.SaveAt(ts=t[1:]),
            stepsize_controller=diffrax.PIDController(rtol=1e-7, atol=1e-8),
            max_steps=4096,
        ).ys

    def member(sde):
        rows = (batch.drives.policies, coefficients, batch.t, batch.y[:, 0])
        return eqx.filter_vmap(lambda *row: path(sde, *row))(*rows)

    return eqx.filter_vmap(member)(ensemble.stacked)


@pytest.mark.parametrize("control", ["interpolated", "closed-loop"])
def test_a_multi_step_prediction_is_that_of_adaptive_steps(control):
    batch, ensemble = random_sequences(4, 5), ensemble_of(2)
    expected = reference_paths(ensemble, batch, control)
    predict = eqx.filter_jit(looks_by(4, control))
    for i in range(2):
        found = predict(SPEC, member_of(ensemble.stacked, i), batch)
        np.testing.assert_allclose(found, SPEC.observation.residual(batch.y[:, 1:], expected[i]), atol=2e-5)


def shared_data(trajectories: int = 3, looks: int = 31, gap: float = 0.1) -> Dataset:
    """A fixed dataset: the pendulum under smooth signals."""
    env, data, times = Pendulum(sigma=0.0), None, jnp.arange(looks) * gap
    for i in range(trajectories):
        feedback = init_feedback(SPEC, jax.random.key(0), (8,))
        policy = Policy(feedback, random_signal(SPEC, jax.random.key(10 + i)), jnp.zeros(()))
        trajectory = simulate(env, policy, times, jax.random.key(0))
        data = (Dataset.empty(trajectory, 8) if data is None else data).add(trajectory)
    assert data is not None
    return data


def reference_loss(model, batch: Sequences, control: str) -> float:
    """The mean negative log-likelihood of every predicted look, by diffrax and scipy."""
    ensemble, log_noise = model
    paths = reference_paths(ensemble, batch, control)
    residual = SPEC.observation.residual(jnp.broadcast_to(batch.y[:, 1:], paths.shape), paths)
    noise = FLOOR + np.exp(np.asarray(log_noise))[:, None, None]
    return float(-stats.norm.logpdf(np.asarray(residual), scale=noise).sum(axis=-1).mean())


def test_the_drift_loss_on_a_fixed_dataset_falls_as_the_reference_says():
    data, control = shared_data(), "interpolated"
    learner = learner_with(2, updates=240, noise="learned", noise_rate=1.0, noise_level=0.3)
    fit = learner.init(SPEC, jax.random.key(0))
    batch = sample_sequences(data, jax.random.key(1), count=4, length=5)
    ours, reference = [], []
    first = 0
    for count in (0, 20, 60, 160):
        if count:
            fit = trained(learner, "dynamics", data, fit, first, count, 2).state
        first += count
        model = (fit.ensemble, fit.log_noise)
        ours.append(float(jnp.mean(losses_of(learner, looks_by(2, control), *model, batch))))
        reference.append(reference_loss(model, batch, control))
    np.testing.assert_allclose(ours, reference, rtol=1e-3, atol=1e-3)
    assert np.all(np.diff(reference) < 0)
    assert reference[-1] < reference[0] - 2


def test_the_gradient_is_that_of_adaptive_steps():
    """Along a random direction in the parameters of all drifts, against central differences of the reference."""
    batch, ensemble = random_sequences(2, 4, seed=3), ensemble_of(1, kinematics=False)
    learner, prediction = learner_with(), looks_by(8, "closed-loop")
    log_noise = jnp.full((1, 2), np.log(0.5 - FLOOR))

    def loss(ensemble):
        return jnp.mean(losses_of(learner, prediction, ensemble, log_noise, batch))

    gradient = eqx.filter_jit(eqx.filter_grad(loss))(ensemble).stacked.drift_net
    direction = jax.tree.map(
        lambda leaf: jax.random.normal(jax.random.key(leaf.size), leaf.shape), eqx.filter(gradient, eqx.is_array)
    )
    along = sum(jnp.sum(a * b) for a, b in zip(jax.tree.leaves(gradient), jax.tree.leaves(direction), strict=True))
    small, values = 1e-5, []
    for sign in (1, -1):
        step = jax.tree.map(lambda d, sign=sign: sign * small * d, direction)
        moved = eqx.apply_updates(ensemble.stacked.drift_net, step)
        moved = eqx.tree_at(lambda e: e.stacked.drift_net, ensemble, moved)
        values.append(reference_loss((moved, log_noise), batch, "closed-loop"))
    np.testing.assert_allclose(along, (values[0] - values[1]) / (2 * small), rtol=2e-3)


class LinearSDE(SDE):
    """dy = (A y + B u) dt: what a member would be if it were linear."""

    a: jax.Array
    b: jax.Array

    def drift(self, y, u):
        return y @ self.a.T + u @ self.b.T

    def diffusion(self, y, u):
        return jnp.zeros_like(y)


LINEAR = LinearSDE(jnp.asarray(np.array([[-0.2, 1.0], [-2.0, -0.3]])), jnp.asarray(np.array([[0.0], [1.5]])))


def linear_data(gap: float, looks: int = 41) -> Dataset:
    """The linear system under u = cos(3 t), exactly: homogeneous solution plus the particular one at frequency 3."""
    matrix, vector = np.asarray(LINEAR.a), np.asarray(LINEAR.b)[:, 0]
    particular = np.linalg.solve(3j * np.eye(2) - matrix, vector)
    values, vectors = np.linalg.eig(matrix)
    times, data = np.arange(looks) * gap, None
    for start in ([0.5, 0.0], [-0.3, 0.6], [0.0, -0.8]):
        weights = np.linalg.solve(vectors, np.asarray(start) - particular.real)
        free = (vectors[None] * np.exp(values[None] * times[:, None])[:, None, :]) @ weights
        states = free.real + (particular[None] * np.exp(3j * times)[:, None]).real
        trajectory = Trajectory(jnp.asarray(times), jnp.asarray(states), jnp.asarray(np.cos(3 * times))[:, None], 0.0)
        data = (Dataset.empty(trajectory, 4) if data is None else data).add(trajectory)
    assert data is not None
    return data


def no_angles() -> Spec:
    return eqx.tree_at(lambda s: s.observation, SPEC, Observation(2, ()), is_leaf=lambda x: isinstance(x, Observation))


def test_slopes_of_a_linear_system_are_matched_to_third_order():
    """The truth's own residual over a gap h is O(h^3), so it falls eightfold when the gap is halved."""
    sizes = []
    for gap, looks in ((0.1, 21), (0.05, 41)):
        batch = sample_sequences(linear_data(gap, looks), jax.random.key(0), count=1, length=looks)
        residual = eqx.filter_jit(match_slopes)(no_angles(), LINEAR, batch)
        sizes.append(float(jnp.max(jnp.abs(residual))))
    assert sizes[0] / sizes[1] == pytest.approx(8, rel=0.2)


def test_gradient_matching_finds_a_linear_drift():
    spec, data = no_angles(), linear_data(0.05)
    model = DriftNetwork(hidden=(32,))
    learner = learner_with(updates=600, rate=1e-2, matching_batch=32, noise_level=0.1, model=model)
    fit = trained(learner, "matching", data, learner.init(spec, jax.random.key(1)), 0, 600, 0, spec).state
    y, u = data.states[data.real], data.controls[data.real]
    truth = LINEAR.drift(y, u)
    for i in range(2):
        error = member_of(fit.ensemble.stacked, i).drift(y, u) - truth
        assert float(jnp.sqrt(jnp.mean(error**2))) < 0.05 * float(jnp.sqrt(jnp.mean(truth**2)))


@given(st.integers(0, 10_000))
def test_controls_pass_through_the_samples_of_their_own_sequence(seed):
    batch = random_sequences(3, 5, seed)
    for k in range(5):
        found = interpolated_control(batch, batch.t[:, k], batch.y[:, k])
        np.testing.assert_allclose(found, batch.u[:, k], atol=1e-9)
    middle = 0.3 * batch.t[:, 1] + 0.7 * batch.t[:, 2]
    found = interpolated_control(batch, middle, batch.y[:, 0])
    for i in range(3):
        curve = CubicHermiteSpline(batch.t[i], batch.u[i], batch.u_slope[i])
        expected = np.clip(curve(float(middle[i])), -2, 2)
        np.testing.assert_allclose(found[i], expected, atol=1e-9)


def test_a_smooth_signal_is_interpolated_to_third_order():
    errors = []
    for gap in (0.1, 0.05):
        times = jnp.arange(0.0, 3.0, gap)
        signal = jnp.cos(4 * times)[:, None]
        trajectory = Trajectory(times, jnp.zeros((times.shape[0], 2)), signal, 0.0)
        batch = sample_sequences(Dataset.empty(trajectory, 1).add(trajectory), jax.random.key(3), count=16, length=5)
        inner = np.asarray((batch.t[:, 0] > 0.2) & (batch.t[:, -1] < 2.7))
        between = [np.asarray(batch.t[:, k]) + share * gap for k in range(4) for share in (0.25, 0.5, 0.75)]
        found = [np.asarray(interpolated_control(batch, jnp.asarray(t), batch.y[:, 0]))[:, 0] for t in between]
        errors.append(max(np.abs(u - np.cos(4 * t))[inner].max() for u, t in zip(found, between, strict=True)))
    assert errors[0] / errors[1] > 6
    assert errors[0] < 0.02


def test_stretches_are_consecutive_looks_of_one_trajectory_with_its_slopes():
    data = None
    for row, looks in enumerate((9, 6, 12)):
        times = jnp.arange(float(looks))
        trajectory = Trajectory(times, (100.0 * row + times)[:, None], (times**2)[:, None], jnp.asarray(float(row)))
        data = (Dataset.empty(trajectory, 5) if data is None else data).add(trajectory)
    assert data is not None
    batch = sample_sequences(data, jax.random.key(0), count=400, length=4)
    np.testing.assert_array_equal(np.diff(batch.t, axis=1), 1.0)
    np.testing.assert_array_equal(batch.y[..., 0], 100 * batch.drives.policies[:, None] + batch.t)
    starts = np.asarray(batch.t[:, 0])
    for row, looks in enumerate((9, 6, 12)):
        own = starts[np.asarray(batch.drives.policies) == row]
        assert set(own) == set(range(looks - 3))
        slopes = np.gradient(np.arange(float(looks)) ** 2)
        chosen = np.asarray(batch.drives.policies) == row
        np.testing.assert_allclose(batch.u_slope[chosen, :, 0], slopes[np.asarray(batch.t[chosen], int)])


def test_looks_past_the_end_of_a_short_trajectory_are_not_counted():
    """Stretches of 5 looks from a trajectory of 3 teach what stretches of 3 do."""
    times = jnp.asarray([0.0, 0.1, 0.3])
    states = jnp.asarray([[3.0, 0.0], [3.1, 0.4], [3.0, -0.2]])
    trajectory = Trajectory(times, states, jnp.zeros((3, 1)), jnp.asarray(0.0))
    data = Dataset.empty(trajectory, 2).add(trajectory)
    after = []
    for length in (3, 5):
        batch = sample_sequences(data, jax.random.key(0), count=4, length=length)
        np.testing.assert_array_equal(jnp.sum(batch.real, axis=1), 3)
        learner = learner_with(length=length)
        after.append(trained(learner, "dynamics", data, learner.init(SPEC, jax.random.key(0)), 0, 5, 0))
    for name, value in after[0].metrics.items():
        np.testing.assert_allclose(after[1].metrics[name], value, rtol=1e-6)


def test_a_learned_ode_has_no_noise():
    ensemble = ensemble_of(2)
    world, feedback = World(ensemble, SpecReward(SPEC)), init_feedback(SPEC, jax.random.key(0), (8,))
    start = jax.random.normal(jax.random.key(1), (2, 3, 2))
    noises = (jax.random.normal(jax.random.key(k), (5, *start.shape)) for k in (0, 1))
    a, b = (rollout(world, feedback, (jnp.zeros((2, 3)), start), noise, step=0.1).states for noise in noises)
    np.testing.assert_array_equal(a, b)
    assert not ensemble.noisy


@pytest.mark.parametrize("noise", ["fixed", "learned"])
def test_the_observation_noise_is_learned_or_fixed(noise):
    data, learner = shared_data(trajectories=1), learner_with(updates=100, members=1, noise=noise)
    fit = learner.init(SPEC, jax.random.key(0))
    np.testing.assert_allclose(FLOOR + np.exp(fit.log_noise), 0.37)
    after = trained(learner, "matching", data, fit, 0, 100, 0).state
    assert bool(jnp.all(after.log_noise == fit.log_noise)) is (noise == "fixed")
    assert bool(jnp.all(after.ensemble.stacked.drift_scale == fit.ensemble.stacked.drift_scale))


def test_settings_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="dynamics_length 1 leaves no look to predict"):
        ODELearner(length=1)
    with pytest.raises(ValueError, match=r"noise_floor 0\.5 must be below noise_level 0\.37"):
        ODELearner(noise_floor=0.5)
