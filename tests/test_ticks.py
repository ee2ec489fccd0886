"""The extended MDP on a simulated plant: holds, looks, and integrals of the reward."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st
from jaxtyping import Array, Float

from ctmle.data import Recorded
from ctmle.envs import LinearQuadratic, Pendulum
from ctmle.plants import Decision, Holds, SimulatedSDE, simulate
from ctmle.plants.ticks import decided_trajectory, run_many_ticks, run_ticks
from ctmle.schedules import DecidedLooks, Equidistant

TICK, STEP, HORIZON, RATE = 0.1, 0.05, 2.0, 0.7
TICKS, SUBSTEPS = round(HORIZON / TICK), round(TICK / STEP)


class Script(Holds):
    """Reads what to do from a list: the decision at tick k is entry k."""

    controls: Float[Array, "ticks control"]
    holds: Float[Array, " ticks"]
    tick: float = eqx.field(static=True, default=TICK)
    discount_rate: float = eqx.field(static=True, default=RATE)
    control_size: int = eqx.field(static=True, default=1)

    def decide(self, t: Float[Array, ""], y: Float[Array, " observed"]) -> Decision:
        now = jnp.round(t / self.tick).astype(jnp.int32)
        return Decision(self.controls[now], self.holds[now])


def script(holds, seed=0) -> Script:
    controls = np.random.default_rng(seed).uniform(-2, 2, (TICKS, 1))
    return Script(controls=jnp.asarray(controls, jnp.float32), holds=TICK * jnp.asarray(holds, jnp.float32))


@jax.jit
def noise_of(key):
    """The Brownian increments of the simulator, from its key."""
    keys = jax.random.split(jax.random.split(key)[1], TICKS)
    draw = jax.vmap(jax.vmap(lambda k, i: jax.random.normal(jax.random.fold_in(k, i), (2,)), (None, 0)), (0, None))
    return jnp.sqrt(STEP) * draw(keys, jnp.arange(SUBSTEPS))


def by_hand(path, key):
    """A noisy pendulum in plain NumPy, driven by the controls that the path says were held."""

    def drift(x, u):
        return np.array([x[1], 15 * np.sin(x[0]) + 3 * u])

    def reward(x, u):
        return np.exp(-((1 - np.cos(x[0])) ** 2) - np.sin(x[0]) ** 2 - 0.01 * x[1] ** 2) - 0.01 * u**2

    x, noise, plain, discounted = np.array([np.pi, 0.0]), 0.2 * np.asarray(noise_of(key), float), 0.0, 0.0
    for k in range(TICKS):
        u = float(path.controls[k, 0])
        for i in range(SUBSTEPS):
            t = k * TICK + i * STEP
            guess = x + drift(x, u) * STEP + noise[k, i]
            later = x + 0.5 * (drift(x, u) + drift(guess, u)) * STEP + noise[k, i]
            here, there, x = reward(x, u), reward(later, u), later
            plain += 0.5 * STEP * (here + there)
            discounted += 0.5 * STEP * (np.exp(-RATE * t) * here + np.exp(-RATE * (t + STEP)) * there)
    return x, plain, discounted


ENV = Pendulum(horizon=HORIZON)


@given(holds=st.lists(st.integers(0, 2 * TICKS), min_size=TICKS, max_size=TICKS), seed=st.integers(0, 99))
def test_holds_follow_the_script_whatever_it_says(holds, seed):
    policy = script(holds, seed)
    path = run_ticks(ENV, policy, jax.random.key(seed), step=STEP)
    expected, at = np.zeros(TICKS, bool), 0
    while at < TICKS:
        expected[at] = True
        length = max(holds[at], 1)
        assert np.all(path.controls[at : at + length] == policy.controls[at])
        at += length
    np.testing.assert_array_equal(path.decided, expected)
    assert path.times[-1] == pytest.approx(HORIZON)
    trajectory = decided_trajectory(path)
    assert trajectory.looks == expected.sum() + 1
    assert trajectory.rewards is not None
    np.testing.assert_array_equal(trajectory.times[:-1], path.times[:-1][expected])


@given(holds=st.lists(st.integers(1, 12), min_size=TICKS, max_size=TICKS), seed=st.integers(0, 99))
def test_return_is_the_integral_of_the_reward_for_any_holds(holds, seed):
    """Plain, and discounted: the rewards of decisions, discounted by exp(-beta t), add up to the integral from 0 on."""
    policy, key = script(holds, seed), jax.random.key(seed)
    path = run_ticks(ENV, policy, key, step=STEP)
    looks = decided_trajectory(path)
    x, plain, discounted = by_hand(path, key)
    np.testing.assert_allclose(path.states[-1], x, rtol=2e-4, atol=2e-4)
    assert float(jnp.sum(path.gains)) == pytest.approx(plain, rel=1e-4, abs=1e-4)
    total = np.sum(np.exp(-RATE * np.asarray(looks.times[:-1])) * np.asarray(looks.rewards))
    assert total == pytest.approx(discounted, rel=1e-4, abs=1e-4)


@given(holds=st.lists(st.integers(1, 12), min_size=TICKS, max_size=TICKS))
def test_discounting_by_holds_is_discounting_by_ticks(holds):
    """Going through decisions with exp(-beta * hold) gives what going tick by tick with gamma gives."""
    key, steady = jax.random.key(1), jnp.ones((TICKS, 1))
    looks, ticks = (
        decided_trajectory(run_ticks(ENV, eqx.tree_at(lambda p: p.controls, script(h), steady), key, step=STEP))
        for h in (holds, [1] * TICKS)
    )
    gamma, by_ticks, by_holds = np.exp(-RATE * TICK), 0.0, 0.0
    for reward in np.asarray(ticks.rewards)[::-1]:
        by_ticks = reward + gamma * by_ticks
    for reward, hold in zip(np.asarray(looks.rewards)[::-1], np.diff(np.asarray(looks.times))[::-1], strict=True):
        by_holds = reward + np.exp(-RATE * hold) * by_holds
    assert by_holds == pytest.approx(by_ticks, rel=1e-4, abs=1e-5)


def test_reward_of_a_hold_has_its_closed_form():
    """A resting integrator earns 1 per second: (1 - exp(-beta h)) / beta over a hold of h."""
    env = LinearQuadratic(sigma=0.0, horizon=HORIZON)
    policy = Script(controls=jnp.zeros((TICKS, 1)), holds=jnp.full(TICKS, 0.8))
    path = run_ticks(env, policy, jax.random.key(0), step=0.01, start=jnp.zeros(1))
    expected = (1 - np.exp(-RATE * np.array([0.8, 0.8, 0.4]))) / RATE
    np.testing.assert_allclose(np.asarray(decided_trajectory(path).rewards), expected, rtol=1e-5)


def test_a_horizon_that_is_no_multiple_of_the_tick_is_met_exactly():
    env = LinearQuadratic(sigma=0.0, horizon=0.95)
    policy = Script(controls=jnp.zeros((10, 1)), holds=jnp.full(10, 0.4))
    path = run_ticks(env, policy, jax.random.key(0), start=jnp.zeros(1))
    np.testing.assert_allclose(path.times[-2:], [0.9, 0.95], rtol=1e-6)
    np.testing.assert_allclose(decided_trajectory(path).times, [0.0, 0.4, 0.8, 0.95], rtol=1e-6)
    assert float(jnp.sum(path.gains)) == pytest.approx(0.95, rel=1e-5)


def test_a_batch_is_its_trajectories():
    policy, keys = script([3] * TICKS), jax.random.split(jax.random.key(0), 3)
    batch = run_many_ticks(ENV, policy, keys, step=STEP)
    for i, key in enumerate(keys):
        one = run_ticks(ENV, policy, key, step=STEP)
        np.testing.assert_allclose(batch.states[i], one.states, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(batch.decided[i], one.decided)


def test_simulate_lets_the_policy_decide_when_to_look():
    policy = script([4] * TICKS)
    trajectory = simulate(ENV, policy, DecidedLooks(), jax.random.key(0), step=STEP)
    np.testing.assert_allclose(trajectory.times, [0.0, 0.4, 0.8, 1.2, 1.6, 2.0], rtol=1e-6)
    path = run_ticks(ENV, policy, jax.random.key(0), step=STEP)
    np.testing.assert_array_equal(trajectory.states, path.states[::4])
    assert isinstance(trajectory.drive, Recorded)
    np.testing.assert_array_equal(trajectory.drive(jnp.asarray([0.0, 0.45]), jnp.zeros((2, 2))), policy.controls[:5:4])


def test_a_plant_runs_a_controller_that_decides_its_looks_and_scores_it_at_every_tick():
    plant, policy, keys = SimulatedSDE(ENV, STEP), script([4] * TICKS), jax.random.split(jax.random.key(0), 2)
    one = plant.run(policy, DecidedLooks(), keys[0])
    expected = simulate(ENV, policy, DecidedLooks(), keys[0], step=STEP)
    np.testing.assert_array_equal(one.states, expected.states)
    many = plant.run_many(policy, Equidistant(0.5).looks(keys[0], HORIZON), keys)
    assert many.states.shape == (2, TICKS + 1, 2)


def test_a_controller_that_holds_remembers_its_decision_until_the_next_look():
    policy = script([3] * TICKS)
    memory = policy.begin()
    np.testing.assert_array_equal(policy.control(memory, jnp.asarray(0.0)), 0.0)
    now, y = jnp.asarray(2 * TICK), jnp.zeros(2)
    memory = policy.look(memory, now, y)
    assert jax.tree.structure(memory) == jax.tree.structure(policy.begin())
    decision = policy.decide(now, y)
    for later in (now, now + TICK):
        np.testing.assert_array_equal(policy.control(memory, later), decision.control)
        np.testing.assert_array_equal(policy.next_look(memory, later), decision.hold)
    np.testing.assert_array_equal(decision.control, policy.controls[2])


def test_a_tick_longer_than_the_horizon_is_refused():
    with pytest.raises(ValueError, match="tick must be a positive number of seconds, at most the horizon 2 s"):
        run_ticks(ENV, Script(controls=jnp.zeros((1, 1)), holds=jnp.ones(1), tick=3.0), jax.random.key(0))


def test_looks_that_the_policy_decides_on_need_a_policy_that_does():
    with pytest.raises(
        ValueError, match="only a controller that decides its looks runs without times: give times to look at"
    ):
        simulate(ENV, lambda t, y: jnp.zeros(1), DecidedLooks(), jax.random.key(0))


def test_a_path_that_runs_away_can_be_stopped_short():
    start = jnp.asarray([0.0, jnp.finfo(jnp.float32).max])
    for stop_short in (False, True):
        path = run_ticks(ENV, script([1] * TICKS), jax.random.key(0), step=STEP, start=start, stop_short=stop_short)
        assert bool(jnp.all(jnp.isfinite(path.states))) == stop_short
