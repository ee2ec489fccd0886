"""Held controls, noisy sensors and goals: what acted, what was seen, and what is judged."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st

from ctmle.agents.sac_tacos import SacTacos
from ctmle.data import Recorded
from ctmle.data.trajectory import checked
from ctmle.envs import Env, LinearQuadratic, NoisySensor, Pendulum, make
from ctmle.lab.evaluate import evaluate
from ctmle.lab.experiment import Evaluation, from_json, from_settings, start, to_json
from ctmle.models import TrueSDE, World
from ctmle.models.world import SpecReward
from ctmle.planning import ActorCritic, init_feedback, rollout
from ctmle.plants import Continuous, Decision, Holds, SimulatedSDE, simulate, simulate_many
from ctmle.plants.held import Instants
from ctmle.registry import ENVIRONMENTS
from ctmle.schedules import Equidistant, Looks
from ctmle.schedules.base import DecidedLooks


class Integrator(Env):
    """dx = u dt from x = 1, wanted within 0.5 of 0. What noise there is comes from the sensor."""

    state_names: tuple[str, ...] = ("x",)
    angles: tuple[int, ...] = ()
    control_low: tuple[float, ...] = (-9.0,)
    control_high: tuple[float, ...] = (9.0,)
    horizon: float = 3.0

    def drift(self, x, u):
        return u

    def diffusion(self, x, u):
        return jnp.zeros_like(x)

    def reward(self, x, u):
        return jnp.exp(-(x[0] ** 2))

    def reset(self, key):
        return jnp.ones(1)

    def goal(self, x):
        return jnp.abs(x[0]) <= 0.5


class Proportional(Continuous):
    gain: float

    def __call__(self, t, y):
        return -self.gain * y[..., :1]


@pytest.mark.usefixtures("strict_dtypes")
def test_a_held_control_is_that_of_the_last_tick():
    """x' = -x(last tick): the state shrinks by 1 - hold from tick to tick, along straight lines."""
    looks = Looks(jnp.arange(0.0, 2.01, 0.25))
    seen = simulate(Integrator(hold=0.5), Proportional(1.0), looks, jax.random.key(0))
    assert isinstance(seen.drive, Recorded)
    ticks = 0.5 ** np.arange(5)
    np.testing.assert_allclose(seen.states[::2, 0], ticks, rtol=1e-5)
    np.testing.assert_allclose(seen.states[1::2, 0], 0.5 * (ticks[:-1] + ticks[1:]), rtol=1e-5)
    np.testing.assert_allclose(seen.controls[:-1, 0], -np.repeat(ticks[:-1], 2), rtol=1e-5)
    np.testing.assert_array_equal(seen.drive.times, [0.0, 0.5, 1.0, 1.5])
    np.testing.assert_allclose(seen.drive.values[:, 0], -ticks[:-1], rtol=1e-5)


def test_a_control_is_computed_from_the_look_that_falls_on_its_tick():
    env = Integrator(hold=0.1, sensor_noise=0.3)
    looks = Equidistant(0.1, random_looks=True).looks(jax.random.key(1), 3.0)
    seen = checked(simulate(env, Proportional(2.0), looks, jax.random.key(0)), env.spec, 3.0)
    assert isinstance(seen.drive, Recorded)
    np.testing.assert_array_equal(seen.times, looks.times)
    np.testing.assert_array_equal(seen.drive.times, looks.times[:-1:2])
    np.testing.assert_array_equal(seen.drive.values, -2.0 * seen.states[:-1:2])
    np.testing.assert_array_equal(seen.controls[:-1:2], seen.drive.values)
    np.testing.assert_array_equal(seen.controls[1::2], seen.drive.values)
    np.testing.assert_array_equal(jax.vmap(seen.drive)(seen.times[:-1], seen.states[:-1]), seen.controls[:-1])


@given(st.sampled_from([0.05, 0.1, 1 / 3]), st.integers(1, 400), st.integers(1, 3))
def test_rounded_times_make_no_instants_of_their_own(hold, count, every):
    times = np.arange(0, count * every + 1, every) * hold
    instants = Instants.of(Looks(jnp.asarray(times, jnp.float32)), hold)
    assert len(instants.times) == count * every + 1
    assert len(instants.ticks) == count * every
    np.testing.assert_array_equal(np.asarray(instants.times)[np.asarray(instants.looks)], np.float32(times))


@pytest.mark.parametrize("hold", [None, 0.25])
def test_a_sensor_adds_independent_noise_to_looks_and_tests_see_the_truth(hold):
    env, still = Pendulum(sigma=0.0, sensor_noise=0.2, hold=hold), Proportional(0.0)
    looks = Looks(jnp.linspace(0.0, 10.0, 2001))
    noise = np.asarray(simulate(env, still, looks, jax.random.key(0), start=jnp.zeros(2)).states)
    np.testing.assert_allclose(noise.std(axis=0), 0.2, rtol=0.08)
    np.testing.assert_allclose(noise.mean(axis=0), 0.0, atol=0.02)
    assert abs(np.corrcoef(noise.T)[0, 1]) < 0.08
    assert abs(np.corrcoef(noise[1:, 0], noise[:-1, 0])[0, 1]) < 0.08
    exact = Pendulum(sigma=0.0, hold=hold)
    keys = jax.random.split(jax.random.key(0), 2)
    short = Looks(looks.times[:3])
    truth, noisy = (simulate_many(one, still, short, keys).states for one in (exact, env))
    np.testing.assert_array_equal(truth, noisy)


class HoldsOneTick(Holds):
    tick: float = 0.5
    discount_rate: float = 0.1
    control_size: int = 1

    def decide(self, t, y):
        return Decision(-y, jnp.asarray(self.tick))


def test_a_controller_that_decides_its_looks_sees_measurements():
    env = Integrator(sensor_noise=0.1)
    seen = SimulatedSDE(env).run(HoldsOneTick(), DecidedLooks(), jax.random.key(0))
    np.testing.assert_array_equal(seen.controls[:-1], -seen.states[:-1])
    true = np.cumsum([1.0, *(0.5 * np.asarray(seen.controls[:-1, 0]))])
    assert 0.01 < np.abs(np.asarray(seen.states[:, 0]) - true).max() < 0.5


def test_a_tick_that_is_no_whole_number_of_holds_is_refused():
    with pytest.raises(ValueError, match=r"tick 0.05 is no whole number of the 0.04 s .* choose --tick 0.04"):
        SacTacos().fits(Integrator(hold=0.04).spec, Equidistant())


def test_imagined_trajectories_hold_their_controls_too():
    """dx = u dt: two steps per tick, along a straight line, by the control of the tick."""
    env = LinearQuadratic(sigma=0.0, hold=0.25)
    feedback = init_feedback(env.spec, jax.random.key(0), (8,))
    feedback = eqx.tree_at(lambda f: f.net.weights[-1], feedback, replace_fn=lambda w: 10 * w)
    start, noise = jnp.full((1, 1, 1), 1.0), jnp.zeros((6, 1, 1, 1))
    world = World(TrueSDE(env), SpecReward(env.spec))
    path = rollout(world, feedback, (jnp.zeros((1, 1)), start), noise, step=0.125, hold=0.25)
    x, u = path.states[:, 0, 0, 0], feedback(path.times[::2], path.states[::2])[:, 0, 0, 0]
    np.testing.assert_allclose(np.diff(x), 0.125 * np.repeat(u[:-1], 2), atol=1e-5)
    np.testing.assert_allclose(path.rewards[1, 0, 0], env.reward(x[1:2], u[:1]), rtol=1e-5)
    assert np.all(np.abs(np.diff(u)) > 0.1)


@pytest.mark.parametrize(("hold", "steps"), [(0.05, (20, 0.05)), (0.25, (12, 0.25 / 3)), (2.0, (10, 0.1))])
def test_a_held_control_lasts_a_whole_number_of_imagined_steps(hold, steps):
    assert ActorCritic().steps(0.125, hold) == pytest.approx(steps)


def test_the_goal_rule_judges_true_states_all_the_time_after_the_warm_up():
    """From 1, a gain of 1 is within 0.5 after log 2 s, whatever the sensor says."""
    for warm_up, share in ((0.8, 1.0), (0.6, 0.0)):
        judged = Evaluation(rule="goal", warm_up=warm_up, test_trajectories=4)
        score = evaluate(Integrator(sensor_noise=5.0), Proportional(1.0), jax.random.key(0), judged)
        assert (score.success_share, score.success) == (share, share == 1.0)
        assert 0.7 < score.mean < 1.0


def test_a_goal_rule_without_a_goal_is_refused():
    wanted = r"rule goal needs a goal: write the method Pendulum.goal\(x\), or choose --rule mean"
    with pytest.raises(ValueError, match=wanted):
        from_settings({"environment": "pendulum", "rule": "goal"})
    with pytest.raises(ValueError, match=wanted):
        evaluate(Pendulum(), Proportional(0.0), jax.random.key(0), Evaluation(rule="goal"))


@pytest.mark.parametrize(
    "words", ["ct-mle default", "ct-mle paper", "ct-mle quick", "enode default", "enode paper", "sac-tacos default"]
)
def test_every_agent_starts_on_pilcos_cart_pole(words):
    agent, preset = words.split()
    experiment = from_settings({"environment": "cartpole-pilco", "agent": agent, "preset": preset})
    assert (experiment.evaluation.rule, experiment.evaluation.warm_up) == ("goal", 2.0)
    assert from_json(to_json(experiment)) == experiment


@pytest.mark.parametrize("name", ENVIRONMENTS.names)
def test_every_environment_can_be_held_and_seen_with_noise(name):
    env = start(name).changed({"hold": 0.5, "sensor_noise": 0.1}).env
    assert (env.spec.hold, env.spec.sensor) == (0.5, NoisySensor(0.1))


def test_runs_from_before_are_read_with_continuous_control_and_exact_sensors():
    content = to_json(from_settings({"environment": "pendulum"}))
    for place in (content["system"]["settings"], content["system"]["spec"]):
        assert (place.pop("hold"), place.pop("sensor_noise")) == (None, 0.0)
    assert from_json(content).env == make("pendulum")
