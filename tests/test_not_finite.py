"""NaN and inf, injected into each part: caught, named, and kept out of every file."""

import logging
import re
from dataclasses import dataclass, replace
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_agent import drive, same
from test_run import trained
from tiny import AGENT, run_experiment

from ctmle.data import Trajectory
from ctmle.envs import Env, Pendulum
from ctmle.lab.experiment import Experiment
from ctmle.lab.run import Run
from ctmle.lab.storage import RunFolder
from ctmle.models.world import SpecReward
from ctmle.options import apply
from ctmle.plants import SimulatedSDE
from ctmle.schedules import Equidistant
from ctmle.training.failures import MOST_RETRIES, SMALLER, NotFinite
from ctmle.training.updates import ALL_FINITE, Span, Trainer, loop_updates, where_first

SCHEDULE = Equidistant(0.125)


class Broken(Env):
    """A pendulum of a user who made a mistake: one method gives nonsense where `theta` has left `limit`."""

    method: str = eqx.field(static=True, default="drift")
    limit: float = eqx.field(static=True, default=3.3)
    inner: Pendulum = eqx.field(default=Pendulum(horizon=4.0))
    state_names: tuple[str, ...] = eqx.field(static=True, default=("theta", "w"))
    angles: tuple[int, ...] = eqx.field(static=True, default=(0,))
    control_low: tuple[float, ...] = eqx.field(static=True, default=(-2.0,))
    control_high: tuple[float, ...] = eqx.field(static=True, default=(2.0,))
    horizon: float = eqx.field(static=True, default=4.0)

    def _spoil(self, name, x, value):
        return jnp.where((self.method == name) & (x[0] > self.limit), jnp.nan, value)

    def drift(self, x, u):
        return self._spoil("drift", x, self.inner.drift(x, u))

    def diffusion(self, x, u):
        return self._spoil("diffusion", x, self.inner.diffusion(x, u))

    def reward(self, x, u):
        return self._spoil("reward", x, self.inner.reward(x, u))

    def reset(self, key):
        return self._spoil("reset", jnp.asarray([jnp.inf, 0.0]), self.inner.reset(key))


class Stiff(Env):
    """dx = -k x^3 dt: explicit steps of 0.05 s overflow from x = 8, steps of 0.05 / 16 do not."""

    state_names: tuple[str, ...] = eqx.field(static=True, default=("x",))
    angles: tuple[int, ...] = eqx.field(static=True, default=())
    control_low: tuple[float, ...] = eqx.field(static=True, default=(-1.0,))
    control_high: tuple[float, ...] = eqx.field(static=True, default=(1.0,))
    horizon: float = eqx.field(static=True, default=4.0)
    k: float = eqx.field(static=True, default=4.0)

    def drift(self, x, u):
        return -self.k * x**3 + u

    def diffusion(self, x, u):
        return jnp.full_like(x, 0.1)

    def reward(self, x, u):
        return jnp.exp(-(x[0] ** 2))

    def reset(self, key):
        return jnp.asarray([8.0])


def experiment_on(env: Env, tmp_path, **options) -> Experiment:
    return replace(run_experiment(out=str(tmp_path / "run"), **options), env=env)


def run_on(env: Env, **options) -> Run:
    """A run whose environment was not checked beforehand."""
    run = Run(run_experiment(**options))
    run.plant, run.spec = SimulatedSDE(env, 0.05), env.spec
    return run


def failure(env: Env, tmp_path, monkeypatch, **options) -> tuple[str, RunFolder]:
    """What is said of a run that fails, and its folder."""
    monkeypatch.setattr("ctmle.lab.run.check_env", lambda env: None)
    experiment = experiment_on(env, tmp_path, **options)
    with pytest.raises(RuntimeError) as stopped:
        trained(experiment)
    return str(stopped.value), RunFolder.open(tmp_path / "run")


@pytest.mark.parametrize("method", ["drift", "diffusion", "reset"])
def test_a_method_of_the_users_environment_is_named_with_the_state(method, tmp_path, monkeypatch):
    said, folder = failure(Broken(method=method), tmp_path, monkeypatch)
    assert f"Broken.{method} is NaN or inf in trajectory 0 (episode 0)" in said
    assert folder.read_metrics() == []
    assert folder.checkpoints == []


def test_the_state_before_the_failure_is_named(tmp_path, monkeypatch):
    said, _ = failure(Broken(method="drift"), tmp_path, monkeypatch)
    assert re.search(r"at state \(3\.\d+, -?\d.*\): fix that method if", said)


def test_a_reward_that_is_nan_at_a_look_is_named(tmp_path, monkeypatch):
    said, _ = failure(Broken(method="reward"), tmp_path, monkeypatch)
    assert re.search(r"Broken\.reward .* in trajectory 0 \(episode 0\), at state \(3\.\d", said)


def test_a_reward_that_is_nan_in_a_test_is_named():
    run = run_on(Broken(method="reward"))
    policy = run.agent.policy(run.init())
    with pytest.raises(NotFinite, match=r"Broken\.reward is NaN or inf in a test trajectory, at state \(3\."):
        run.score(policy, 1)


def test_a_simulation_that_overflows_is_retried_with_a_shorter_step(caplog):
    run = run_on(Stiff())
    state = run.init()
    _, policy, looks = run.agent.propose(state, run.schedule)
    with caplog.at_level(logging.WARNING, "ctmle"):
        trajectory = run.act(state, policy, looks)
    assert np.all(np.isfinite(trajectory.states))
    assert "Stiff.drift is NaN or inf in trajectory 0" in caplog.text
    assert "retrying with a shorter step" in caplog.text
    assert 0 < run.score(policy, 1).mean <= 1


def test_a_simulation_that_overflows_at_any_step_is_named(tmp_path, monkeypatch):
    said, _ = failure(Stiff(k=1e6), tmp_path, monkeypatch)
    assert re.search(r"Stiff\.drift .* at state .* a smaller --step may help", said)


def test_weights_that_are_nan_are_blamed_on_the_policy():
    agent, env = AGENT, Pendulum(horizon=4.0)
    policy = agent.policy(agent.init(env.spec, jax.random.key(0)))
    spoilt = eqx.tree_at(lambda p: p.feedback.net.biases[-1], policy, jnp.full(1, jnp.nan))
    plant = SimulatedSDE(env, step=0.05)
    with pytest.raises(NotFinite, match=r"the control of the policy is NaN or inf .* its weights"):
        plant.run(spoilt, SCHEDULE.looks(jax.random.key(0), 4.0), jax.random.key(1))


@pytest.mark.parametrize(
    ("setting", "rate", "quantity", "stage"),
    [("dynamics_rate", 1e30, "dynamics_loss", "dynamics"),
     ("policy_rate", 1e38, "rollout_reach", "policy"), ("critic_rate", 1e38, "critic_loss", "policy")],
)  # fmt: skip
def test_a_rate_that_is_far_too_large_is_named_and_the_checkpoint_is_from_before(
    setting, rate, quantity, stage, tmp_path, monkeypatch
):
    options = {"chunk": 2, setting: rate, "checkpoint_every": 1}
    said, folder = failure(Pendulum(horizon=4.0), tmp_path, monkeypatch, **options)
    assert re.search(rf"{quantity} .* in the {stage} stage of episode 1, update \d+.*: retried 4 times", said)
    assert folder.read_metrics() == []
    state = Run(folder.read_experiment()).restore(folder.read_checkpoint())
    assert int(state.retries) <= MOST_RETRIES
    for leaf in jax.tree.leaves(eqx.filter(state.trained["learner"].ensemble, eqx.is_array)):
        assert np.all(np.isfinite(leaf))


@cache
def fitted():
    """An agent that has fitted its model and improves its policy next."""
    agent = apply(AGENT, {"chunk": 1, "optimism": False})
    state = drive(agent, agent.init(Pendulum(horizon=4.0).spec, jax.random.key(0)), 2)
    while agent.progress(state).stage != "policy":
        state = agent.advance(state, SCHEDULE)
    return agent, state


def in_policy_stage(reward):
    """Return that agent for this reward: without optimism the model does not depend on it."""
    agent, state = fitted()
    spec = replace(state.spec, state_reward=reward)
    return agent, replace(state, spec=spec, trained={**state.trained, "reward": SpecReward(spec)})


def flat_reward_with_a_slip(x, u):
    """Finite everywhere, but the derivative of sqrt at 0 is not."""
    return jnp.sqrt(jnp.maximum(x[0] - 1e3, 0.0))


def test_a_reward_that_is_nan_in_imagination_is_named_with_the_state():
    agent, state = in_policy_stage(lambda x, u: jnp.where(x[1] > 0.1, jnp.nan, 1.0))
    with pytest.raises(
        NotFinite, match=r"rollout_reward .* stage of episode 1, update 0, at state \(.*, (0\.[1-9]|[1-9])"
    ):
        agent.propose(state, SCHEDULE)


def test_a_gradient_that_is_nan_under_a_finite_loss():
    agent, state = in_policy_stage(flat_reward_with_a_slip)
    with pytest.raises(NotFinite, match="actor_gradient is NaN or inf in the policy stage"):
        agent.propose(state, SCHEDULE)


def test_a_failure_keeps_the_last_good_state():
    agent, state = in_policy_stage(lambda x, u: jnp.full((), jnp.nan))
    after = agent.advance(state, SCHEDULE)
    assert int(after.retries) == 1
    assert same(eqx.tree_at(lambda s: s.retries, after, state.retries), state)
    assert agent.progress(after).metrics["setbacks"] == 1.0


def test_steps_are_smaller_after_a_failure():
    agent, state = fitted()

    def step_length(start) -> float:
        end = agent.advance(start, SCHEDULE)
        feedbacks = [eqx.filter(s.trained["improver"].feedback, eqx.is_array) for s in (start, end)]
        moves = jax.tree.map(lambda a, b: jnp.max(jnp.abs(a - b)), *feedbacks)
        return float(jnp.max(jnp.stack(jax.tree.leaves(moves))))

    retrying = eqx.tree_at(lambda s: s.retries, state, jnp.asarray(1, jnp.int32))
    # Adam's first step is the rate itself, whatever the gradient.
    assert step_length(retrying) == pytest.approx(SMALLER * step_length(state), rel=0.02)


def test_looks_of_a_real_plant_are_checked():
    agent = AGENT
    state = agent.init(Pendulum(horizon=4.0).spec, jax.random.key(0))
    _, policy, looks = agent.propose(state, SCHEDULE)
    states = jnp.zeros((looks.count, 2)).at[17, 1].set(jnp.nan)
    trajectory = Trajectory(looks.times, states, jnp.zeros((looks.count, 1)), policy, looks.random)
    with pytest.raises(NotFinite, match="states: look 17, coordinate 1, is NaN or inf"):
        agent.observe(state, trajectory)


class Seen(eqx.Module):
    """The least that a context must have."""

    observed: int = eqx.field(static=True, default=2)


@dataclass(frozen=True)
class Counts(Trainer):
    """Counts updates; metric b is inf at one of them, or the state after it."""

    bad_metric: int = -1
    bad_state: int = -1

    metrics = ("a", "b")

    def init(self, spec, key):
        return jnp.zeros(())

    def update(self, stage, state, inputs, step):
        bad = step.index == self.bad_metric
        state = jnp.where(step.index == self.bad_state, jnp.inf, state + 1)
        return state, {"a": 1.0 * step.index, "b": jnp.where(bad, jnp.inf, 2.0)}, where_first(bad, jnp.ones((1, 2)))


def looped(trainer: Counts, count: int):
    return loop_updates(trainer, "counting", Seen(), jnp.zeros(()), Span.of(0, count, jax.random.key(0)))


def test_a_loop_stops_at_the_first_nan_or_inf():
    fine = looped(Counts(bad_metric=5), 5)
    assert int(fine.culprit) == ALL_FINITE
    assert (float(fine.state), float(fine.metrics["a"]), float(fine.metrics["b"])) == (5.0, 2.0, 2.0)
    spoilt = looped(Counts(bad_metric=5), 9)
    assert (int(spoilt.culprit), int(spoilt.index)) == (1, 5)
    np.testing.assert_array_equal(spoilt.evidence, [1.0, 1.0])


def test_parameters_of_the_last_update_of_a_loop_are_checked_too():
    assert int(looped(Counts(bad_state=4), 4).culprit) == ALL_FINITE
    assert int(looped(Counts(bad_state=4), 5).culprit) == 2  # past the last metric
