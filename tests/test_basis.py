"""The basis model: its functions, the regression's closed forms, paths between looks, noise, and a whole fit."""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st

from ctmle.data import Dataset, Recorded, Trajectory
from ctmle.envs import LinearQuadratic, Pendulum
from ctmle.envs.observation import Observation
from ctmle.models import BasisLearner, Context, DiagonalNetwork, MeanAndSamples, TrueSDE, World
from ctmle.models.basis import BasisSDE, inputs_of, wave
from ctmle.models.basis_learner import draw
from ctmle.models.bridge import Bridge
from ctmle.models.evidence import Regression, Rows, Scales, Waves, design, most_likely, posterior, prior_scales
from ctmle.models.gaussian import solve_lower
from ctmle.models.kinematics import Kinematics
from ctmle.models.laws import Gap
from ctmle.models.model import SDE
from ctmle.models.moments import LinearisedMoments
from ctmle.models.noise import most_likely_noise
from ctmle.models.paths import Gaps, paths_between
from ctmle.models.world import SpecReward
from ctmle.planning import ActorCritic, Policy, init_feedback, plain, random_signal
from ctmle.plants import simulate
from ctmle.schedules import Equidistant
from ctmle.training.double import in_double

ENV = Pendulum(sigma=2.0)


@functools.cache
def some_data(trajectories: int = 2, seconds: float = 5.0) -> Dataset:
    data = None
    for number in range(trajectories):
        key = jax.random.key(number)
        policy = Policy(init_feedback(ENV.spec, key, (8,)), random_signal(ENV.spec, key), jnp.zeros(()))
        trajectory = simulate(ENV, policy, Equidistant(0.125).looks(key, seconds), key, step=0.01)
        data = (Dataset.empty(trajectory, trajectories) if data is None else data).add(trajectory)
    assert data is not None
    return data


def context_of(data: Dataset, env=ENV) -> Context:
    improver = ActorCritic(hidden=(8,))
    return Context(
        spec=env.spec,
        data=data,
        world=World(TrueSDE(env), SpecReward(env.spec)),
        values=improver.values(improver.init(env.spec, jax.random.key(9))),
        episode=jnp.asarray(1, jnp.int32),
        longest_gap=0.125,
    )


@functools.cache
def fitted(seconds: float = 5.0):
    learner = BasisLearner()
    return learner.begin(learner.init(ENV.spec, jax.random.key(3)), context_of(some_data(2, seconds)), 1)


# The basis


@given(st.floats(-50.0, 50.0))
def test_waves_are_cosines(turns):
    turn = np.float32(turns)
    assert float(wave(jnp.asarray(turn))) == pytest.approx(np.cos(2 * np.pi * float(turn)), abs=2e-6)


def test_the_drift_is_linear_in_its_parameters_over_the_design():
    fit = fitted()
    sde: BasisSDE = fit.mean.member(0)
    y, u = jax.random.normal(jax.random.key(0), (7, 2)), jax.random.normal(jax.random.key(1), (7, 1))
    z = inputs_of(ENV.spec.observation, y, u) / sde.input_scale
    one = jax.tree.map(lambda leaf: leaf[0], (fit.waves, fit.scales))
    slopes = design(z, one[0], one[1], 1) @ fit.posterior.mean[0] * sde.output_scale[0]
    drift = sde.drift(y, u)
    np.testing.assert_allclose(drift[:, 1], slopes, rtol=2e-3, atol=2e-3)
    np.testing.assert_array_equal(drift[:, 0], y[:, 1])


def test_known_kinematics_leave_the_rest_to_be_learned():
    known = Kinematics.of(ENV.spec)
    assert (known.pairs, known.learned) == (((0, 1),), (1,))
    y = jnp.asarray([[0.3, -2.0]])
    np.testing.assert_allclose(known.completed(y, jnp.asarray([[5.0]])), [[-2.0, 5.0]])
    assert Kinematics.of(ENV.spec, use=False).learned == (0, 1)
    assert Kinematics.of(ENV.spec_for("trig")).learned == (0, 1, 2)


def test_networks_know_kinematics_too():
    member = DiagonalNetwork(hidden=(8,)).init(ENV.spec, jax.random.key(0), 2).member(1)
    y = jnp.asarray([[0.3, -2.0], [1.0, 4.0]])
    np.testing.assert_allclose(member.drift(y, jnp.zeros((2, 1)))[:, 0], y[:, 1])
    unknown = DiagonalNetwork(hidden=(8,), kinematics=False).init(ENV.spec, jax.random.key(0), 2).member(1)
    assert not np.allclose(unknown.drift(y, jnp.zeros((2, 1)))[:, 0], y[:, 1])


# The regression


def regression() -> tuple[np.ndarray, np.ndarray, np.ndarray, float, Regression]:
    random = np.random.default_rng(0)
    x, prior, noise = random.normal(size=(9, 4)), random.uniform(0.5, 2.0, 4), 0.3
    y = x @ (prior * random.normal(size=4)) + noise * random.normal(size=9)
    sums = in_double(lambda: Regression.of(jnp.asarray(x), jnp.asarray(y), jnp.ones(9, bool)))()
    return x, y, prior, noise, sums


def test_the_evidence_is_the_density_of_the_data():
    x, y, prior, noise, sums = regression()
    found = in_double(lambda: float(sums.log_evidence(jnp.asarray(prior), jnp.asarray(noise))))()
    covariance = (x * prior**2) @ x.T + noise**2 * np.eye(9)
    density = -0.5 * (y @ np.linalg.solve(covariance, y) + np.linalg.slogdet(2 * np.pi * covariance)[1])
    assert found == pytest.approx(density, rel=1e-9)


def test_the_mean_is_that_of_the_posterior():
    x, y, prior, noise, sums = regression()
    mean = in_double(lambda: np.asarray(sums.solved(jnp.asarray(prior), jnp.asarray(noise))[0]))()
    precision = x.T @ x / noise**2 + np.diag(prior**-2.0)
    np.testing.assert_allclose(mean, np.linalg.solve(precision, x.T @ y / noise**2), rtol=1e-9)


def made_up_rows(noise: float, count: int = 200) -> tuple[Rows, tuple, Waves, Scales]:
    """Return rows of a drift 1 - 2 z_0 + z_0 z_1 over gaps of a tenth of a second."""
    random = np.random.default_rng(1)
    z = random.uniform(-1, 1, (count, 1, 3))
    drift = 1 - 2 * z[:, 0, 0] + z[:, 0, 0] * z[:, 0, 1]
    moved = 0.1 * drift + noise * 0.1**0.5 * random.normal(size=count)
    rows = Rows(*map(jnp.asarray, (z, np.ones(1), moved[:, None], np.full(count, 0.1), np.arange(count) < count - 20)))
    rows = jax.tree.map(lambda leaf: leaf.astype(jnp.float32) if eqx.is_inexact_array(leaf) else leaf, rows)
    waves = Waves(jax.random.normal(jax.random.key(0), (1, 3, 20)), jax.random.uniform(jax.random.key(1), (1, 20)))
    return rows, (jnp.ones(3), jnp.ones(1), 1), waves, Scales.initial(1, 3)


@pytest.mark.parametrize("noise", [0.05, 0.5])
def test_evidence_finds_the_noise_and_the_posterior_covers_the_truth(noise):
    rows, units, waves, scales = made_up_rows(noise)
    floor = jnp.asarray([1e-3])
    better = most_likely(rows, units, waves, scales, floor, steps=60)
    before, after = (posterior(rows, units, waves, each, floor) for each in (scales, better))
    assert float(after.evidence[0]) > float(before.evidence[0]) + 5
    assert float(after.noise[0]) == pytest.approx(noise, rel=0.2)
    assert 3 < float(after.free[0]) < 60
    z = jnp.asarray([[0.3, -0.4, 0.2], [-0.7, 0.5, -0.1]])
    one = jax.tree.map(lambda leaf: leaf[0], (waves, better))
    values = design(z, one[0], one[1], 1) @ draw(after, jax.random.key(5), 400)[:, 0].T
    truth = 1 - 2 * z[:, 0] + z[:, 0] * z[:, 1]
    away = (np.mean(values, axis=1) - truth) / np.std(values, axis=1)
    assert np.all(np.abs(away) < 3.5)


def test_draws_have_the_mean_and_the_covariance_of_the_posterior():
    rows, units, waves, scales = made_up_rows(0.3)
    found = posterior(rows, units, waves, scales, jnp.asarray([1e-3]))
    weights = np.asarray(draw(found, jax.random.key(0), 20_000)[:, 0])
    covariance = np.asarray(found.root[0] @ found.root[0].T)
    deviations = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose((weights.mean(0) - found.mean[0]) / deviations, 0.0, atol=0.05)
    np.testing.assert_allclose(np.cov(weights.T) / np.outer(deviations, deviations), covariance / np.outer(
        deviations, deviations), atol=0.05)  # fmt: skip


def test_padding_and_the_order_of_rows_change_nothing():
    rows, units, waves, scales = made_up_rows(0.3)
    floor = jnp.asarray([1e-3])
    found = posterior(rows, units, waves, scales, floor)
    order = np.random.default_rng(0).permutation(200)
    mixed = Rows(rows.inputs[order], rows.weights, 99.0 * ~rows.real[:, None] + rows.moved, rows.seconds, rows.real)
    mixed = Rows(mixed.inputs, mixed.weights, mixed.moved[order], mixed.seconds[order], mixed.real[order])
    again = posterior(mixed, units, waves, scales, floor)
    np.testing.assert_allclose(again.mean, found.mean, atol=1e-5)


def test_scales_of_a_prior_are_those_of_its_functions():
    scales = Scales.initial(1, 3)
    scales = eqx.tree_at(lambda s: s.groups, scales, jnp.log(jnp.asarray([[2.0, 3.0, 5.0, 7.0]])))
    found = np.asarray(prior_scales(jax.tree.map(lambda leaf: leaf[0], scales), 8, 1))
    np.testing.assert_allclose(found, [2.0, *[3.0] * 3, *[5.0] * 5, *[7.0 * 0.5] * 8], rtol=1e-6)


# Paths


class Falling(SDE):
    """The second coordinate accelerates evenly in time, which the first one is."""

    def drift(self, y, u):
        return jnp.stack([jnp.ones_like(y[..., 0]), 3.0 * y[..., 0] - 1.0], axis=-1)

    def diffusion(self, y, u):
        return 0.1 * jnp.ones_like(y)


@pytest.mark.parametrize("longest", [0.125, 0.4])
def test_points_between_two_looks_lie_around_the_path_and_meet_both(longest):
    """Looks on the path of the drift: it is the mean given both ends, with a spread that is largest half-way."""
    env = LinearQuadratic()
    times = np.asarray([0.0, 0.3, 0.5, 0.9], np.float32) * longest / 0.4
    states = np.stack([times, 1.5 * times**2 - times], axis=-1)
    held = Recorded(jnp.asarray([0.0, times[2]]), jnp.asarray([[0.25], [0.75]]))
    like = Trajectory(jnp.asarray(times), jnp.asarray(states), jnp.zeros((4, 1)), held)
    data, spec = Dataset.empty(like, 1).add(like), two_coordinates(env)
    gaps = Gaps.of(spec, data, longest, 0)
    paths = paths_between(gaps, Falling(), Bridge())
    assert int(gaps.real.sum()) == 3
    assert float(paths.weights.sum()) == pytest.approx(1.0)
    inner = paths.states.shape[1] // 2 - 1
    for row in range(3):
        place = int(gaps.places[row])
        t = np.linspace(times[place], times[place + 1], inner + 2)
        exact = np.stack([t, 1.5 * t**2 - t], axis=-1)
        ends, above, below = np.split(np.asarray(paths.states[row]), [2, 2 + inner])
        np.testing.assert_allclose(ends, exact[[0, -1]], atol=1e-5)
        np.testing.assert_allclose(0.5 * (above + below), exact[1:-1], atol=1e-4)
        share = np.linspace(0.0, 1.0, inner + 2)[1:-1]
        spread = 0.1 * np.sqrt(share * (1 - share) * (times[place + 1] - times[place]))
        np.testing.assert_allclose(0.5 * np.abs(above - below)[:, 0], spread, rtol=0.06)
        np.testing.assert_allclose(paths.inputs[row, 2:, -1], 0.25 if place < 2 else 0.75)


def two_coordinates(env):
    """Return a spec of two plain coordinates and one control."""
    return dataclasses.replace(env.spec, observation=Observation(2, (), "angles"))


# Noise


def test_noise_is_found_under_feedback_that_damps_it():
    """A stiff linear loop: between two looks it damps most of the noise, so what is left over is no measure of it."""
    env = LinearQuadratic(sigma=1.0)
    key = jax.random.key(0)
    still = plain(env.spec, init_feedback(env.spec, key, (8,)))
    rate, g, gap, count = -20.0, 0.3, 0.125, 3000
    random = np.random.default_rng(0)
    flow = np.exp(rate * gap)
    spread = g * np.sqrt((flow**2 - 1) / (2 * rate))
    x = np.zeros(count)
    for i in range(1, count):
        x[i] = flow * x[i - 1] + spread * random.normal()
    t, states = jnp.asarray(gap * np.arange(count), jnp.float32), jnp.asarray(x[:, None], jnp.float32)
    like = Trajectory(t, states, jnp.zeros((count, 1)), still)
    data = Dataset.empty(like, 1).add(like)
    sde = linear_basis(env, rate)
    law = LinearisedMoments(longest_step=0.01)
    found = most_likely_noise(Gaps.of(env.spec, data, gap, 0), sde, law, jnp.ones(1), 0.01)
    assert float(found.noise[0]) == pytest.approx(g, rel=0.05)
    left_over = np.sqrt(np.mean((x[1:] - flow * x[:-1]) ** 2) / gap)
    assert left_over < 0.5 * g


def linear_basis(env, rate: float) -> BasisSDE:
    """Return the model of dx = rate x dt + dW."""
    sde: BasisSDE = BasisLearner(waves=2).init(env.spec, jax.random.key(0)).mean.member(0)
    ours = (jnp.asarray([[rate], [0.0]]), jnp.ones(1), jnp.asarray([100.0]))
    sde = eqx.tree_at(lambda s: (s.linear, s.noise, s.output_scale), sde, ours)
    return eqx.tree_at(lambda s: s.linear, sde, sde.linear / 100.0)


# A fit


def test_ten_seconds_of_a_pendulum_give_drift_diffusion_and_honest_doubt():
    fit = fitted()
    random = np.random.default_rng(0)
    x, u = np.asarray(some_data().states)[random.integers(0, 160, 60)], random.uniform(-1.5, 1.5, (60, 1))
    y, u = jnp.asarray(x), jnp.asarray(u, jnp.float32)
    true = jax.vmap(ENV.drift)(y, u)[:, 1]
    found = fit.mean.member(0).drift(y, u)[:, 1]
    assert float(jnp.sqrt(jnp.mean((found - true) ** 2))) < 0.1 * float(jnp.std(true))
    np.testing.assert_allclose(fit.mean.stacked.noise[0], 0.2, rtol=0.25)
    copies = [jnp.broadcast_to(leaf, (fit.samples.members, *leaf.shape)) for leaf in (y, u)]
    spread = jnp.std(fit.samples.drift(*copies)[..., 1], axis=0)
    ratio = float(jnp.sqrt(jnp.mean(spread**2)) / jnp.sqrt(jnp.mean((found - true) ** 2)))
    assert 0.5 < ratio < 4.0


def test_a_fit_depends_on_its_data_alone_and_every_part_is_finite():
    learner, data = BasisLearner(waves=20, steps=10), some_data()
    context = context_of(data)
    first, again = (learner.begin(learner.init(ENV.spec, jax.random.key(0)), context, 1) for _ in range(2))
    for one, other in zip(jax.tree.leaves(first), jax.tree.leaves(again), strict=True):
        if eqx.is_inexact_array(one):
            assert bool(jnp.all(jnp.isfinite(one)))
            np.testing.assert_array_equal(one, other)
    judged_in = learner.plausible(first)
    assert judged_in is not None
    assert judged_in.members == learner.samples
    assert learner.sde(first).members == learner.members == 16
    assert BasisLearner(belief=MeanAndSamples(doubt=0.0)).members == 1
    weights = first.believed.stacked.heights
    assert bool(jnp.all(weights[:12] == weights[0]))
    assert not bool(jnp.any(jnp.all(weights[12:] == weights[0], axis=(1, 2))))


def test_a_law_of_the_fit_explains_what_was_seen_next():
    """On fresh looks, squared residuals are as large as the law says: mean of chi-square over its size near 1."""
    key = jax.random.key(77)
    policy = Policy(init_feedback(ENV.spec, key, (8,)), random_signal(ENV.spec, key), jnp.zeros(()))
    fresh = simulate(ENV, policy, Equidistant(0.125, random_looks=False).looks(key, 5.0), key, step=0.01)
    t, y = fresh.times, fresh.states
    gap = Gap(policy, t[:-1], y[:-1], jnp.diff(t), 0.125, end=y[1:], observation=ENV.spec.observation)
    law, residual = LinearisedMoments().seen(fitted().mean.member(0), gap)
    white = solve_lower(law.factor, residual)
    assert 0.6 < float(jnp.mean(white**2)) < 1.8


# Noise that varies


def walk(level, count: int = 600, seed: int = 0) -> Dataset:
    """Return looks a tenth of a second apart at a slow linear system whose noise has this level at each state."""
    random, x = np.random.default_rng(seed), np.zeros(count)
    for i in range(1, count):
        x[i] = x[i - 1] + 0.1 * -0.5 * x[i - 1] + level(x[i - 1]) * np.sqrt(0.1) * random.normal()
    env = LinearQuadratic()
    still = plain(env.spec, init_feedback(env.spec, jax.random.key(0), (8,)))
    t, states = jnp.asarray(0.1 * np.arange(count), jnp.float32), jnp.asarray(x[:, None], jnp.float32)
    like = Trajectory(t, states, jnp.zeros((count, 1)), still)
    return Dataset.empty(like, 1).add(like)


def noise_found(data: Dataset) -> BasisSDE:
    env = LinearQuadratic()
    gaps = Gaps.of(env.spec, data, 0.1, 0)
    return most_likely_noise(gaps, linear_basis(env, -0.5), LinearisedMoments(), jnp.ones(1), 0.01, True)


def test_noise_that_varies_with_the_state_is_found():
    found = noise_found(walk(lambda x: 0.4 * np.exp(0.8 * np.tanh(x))))
    x = jnp.linspace(-1.0, 1.0, 9)[:, None]
    levels = found.diffusion(x, jnp.zeros_like(x))[:, 0]
    np.testing.assert_allclose(levels, 0.4 * np.exp(0.8 * np.tanh(x[:, 0])), rtol=0.25)


def test_even_noise_is_taken_to_be_even():
    data = [noise_found(walk(lambda x: 0.4, seed=seed)) for seed in range(3)]
    for found in data:
        np.testing.assert_array_equal(found.shape, 0.0)
        np.testing.assert_allclose(found.noise, 0.4, rtol=0.1)
