"""Numbers that are not numbers, injected into each part: caught, named, and kept out of every file."""

import logging
from dataclasses import replace
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_agent import drive, same
from tiny import LEARNER, run_config

from ctmle.agents import CTMLE, Phase
from ctmle.agents.setbacks import MOST, SMALLER
from ctmle.data import Trajectory
from ctmle.dynamics.loop import NO_CULPRIT, Span, loop, where_first
from ctmle.envs import Env, Pendulum
from ctmle.finite import NotFinite
from ctmle.lab.run import Run
from ctmle.lab.storage import RunFolder
from ctmle.schedules import Equidistant

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


def run_on(env: Env, tmp_path, **changes) -> tuple[Run, RunFolder]:
    config = run_config(out=str(tmp_path / "run"), **changes)
    run = Run(config)
    run.env, run.spec = env, env.spec
    return run, RunFolder.create(config)


@pytest.mark.parametrize("method", ["drift", "diffusion", "reset"])
def test_a_method_of_the_users_environment_is_named_with_the_state(method, tmp_path):
    run, folder = run_on(Broken(method=method), tmp_path)
    with pytest.raises(NotFinite, match=rf"Broken\.{method} is not a finite number in trajectory 0 \(episode 0\)"):
        run.train(folder)
    assert folder.read_metrics() == []
    assert folder.checkpoints == []


def test_the_state_before_the_trouble_is_named(tmp_path):
    run, folder = run_on(Broken(method="drift"), tmp_path)
    with pytest.raises(NotFinite, match=r"at state \(3\.\d+, -?\d.*\): mend that method if"):
        run.train(folder)


def test_a_reward_that_is_no_number_at_a_look_is_named(tmp_path):
    run, folder = run_on(Broken(method="reward"), tmp_path)
    with pytest.raises(NotFinite, match=r"Broken\.reward .* in trajectory 0 \(episode 0\), at state \(3\.\d"):
        run.train(folder)


def test_a_reward_that_is_no_number_in_a_test_is_named(tmp_path):
    config = run_config()
    run = Run(config)
    run.env = Broken(method="reward")
    policy = run.agent.policy(run.init())
    with pytest.raises(NotFinite, match=r"Broken\.reward is not a finite number in a test trajectory, at state \(3\."):
        run.score(policy, 1)


def test_a_simulation_that_overflows_is_tried_again_with_a_shorter_step(tmp_path, caplog):
    run, _ = run_on(Stiff(), tmp_path)
    state = run.init()
    _, policy, looks = run.agent.propose(state, run.schedule)
    with caplog.at_level(logging.WARNING, "ctmle"):
        trajectory = run.act(state, policy, looks)
    assert np.all(np.isfinite(trajectory.states))
    assert "Stiff.drift is not a finite number in trajectory 0" in caplog.text
    assert "trying a shorter step" in caplog.text
    assert 0 < run.score(policy, 1).mean <= 1


def test_a_simulation_that_overflows_at_any_step_is_named(tmp_path):
    run, folder = run_on(Stiff(k=1e6), tmp_path)
    with pytest.raises(NotFinite, match=r"Stiff\.drift .* at state .* a smaller --step may help"):
        run.train(folder)


@pytest.mark.parametrize(
    ("setting", "rate", "quantity", "phase"),
    [("dynamics_rate", 1e30, "dynamics_loss", "dynamics"),
     ("policy_rate", 1e38, "rollout_reach", "policy"), ("critic_rate", 1e38, "critic_loss", "policy")],
)  # fmt: skip
def test_a_rate_that_is_far_too_large_is_named_and_the_checkpoint_is_from_before(
    setting, rate, quantity, phase, tmp_path
):
    learner = replace(LEARNER, chunk=2, **{setting: rate})
    run, folder = run_on(Pendulum(horizon=4.0), tmp_path, learner=learner, checkpoint_every=1)
    with pytest.raises(NotFinite, match=rf"{quantity} .* in the {phase} phase of episode 1, update \d+.*: went back"):
        run.train(folder)
    assert folder.read_metrics() == []
    state = run.restore(folder.read_checkpoint())
    assert int(state.setbacks) <= MOST
    for leaf in jax.tree.leaves(eqx.filter(state.belief.ensemble, eqx.is_array)):
        assert np.all(np.isfinite(leaf))


@cache
def fitted():
    """An agent that has fitted its belief and goes on to improve its policy."""
    agent = CTMLE(replace(LEARNER, chunk=1, optimism=False))
    state = drive(agent, agent.init(Pendulum(horizon=4.0).spec, jax.random.key(0)), 2)
    while int(state.phase) != Phase.POLICY:
        state = agent.advance(state, SCHEDULE)
    return agent, state


def in_policy_phase(reward):
    """That agent, for this reward: without optimism the belief does not depend on it."""
    agent, state = fitted()
    return agent, replace(state, spec=replace(state.spec, state_reward=reward))


def flat_reward_with_a_slip(x, u):
    """Finite everywhere, but the derivative of sqrt at 0 is not."""
    return jnp.sqrt(jnp.maximum(x[0] - 1e3, 0.0))


def test_a_reward_that_is_no_number_in_imagination_is_named_with_the_state():
    agent, state = in_policy_phase(lambda x, u: jnp.where(x[1] > 0.1, jnp.nan, 1.0))
    with pytest.raises(
        NotFinite, match=r"rollout_reward .* phase of episode 1, update 0, at state \(.*, (0\.[1-9]|[1-9])"
    ):
        agent.propose(state, SCHEDULE)


def test_a_gradient_that_is_no_number_under_a_loss_that_is_one():
    agent, state = in_policy_phase(flat_reward_with_a_slip)
    with pytest.raises(NotFinite, match="actor_gradient is not a finite number in the policy phase"):
        agent.propose(state, SCHEDULE)


def test_a_setback_goes_back_to_the_last_good_state():
    agent, state = in_policy_phase(lambda x, u: jnp.full((), jnp.nan))
    after = agent.advance(state, SCHEDULE)
    assert int(after.setbacks) == 1
    assert same(eqx.tree_at(lambda s: s.setbacks, after, state.setbacks), state)
    assert agent.standing(after).metrics["setbacks"] == 1.0


def test_steps_are_smaller_after_a_setback():
    agent, state = fitted()

    def step_length(start) -> float:
        end = agent.advance(start, SCHEDULE)
        moves = jax.tree.map(lambda a, b: jnp.max(jnp.abs(a - b)), *(eqx.filter(s.actor_critic.feedback, eqx.is_array)
                                                                     for s in (start, end)))  # fmt: skip
        return float(jnp.max(jnp.stack(jax.tree.leaves(moves))))

    mended = eqx.tree_at(lambda s: s.setbacks, state, jnp.asarray(1, jnp.int32))
    # Adam's first step is the rate itself, whatever the gradient.
    assert step_length(mended) == pytest.approx(SMALLER * step_length(state), rel=0.02)


def test_looks_of_a_real_plant_are_checked():
    agent = CTMLE(LEARNER)
    state = agent.init(Pendulum(horizon=4.0).spec, jax.random.key(0))
    _, policy, looks = agent.propose(state, SCHEDULE)
    states = jnp.zeros((looks.count, 2)).at[17, 1].set(jnp.nan)
    trajectory = Trajectory(looks.times, states, jnp.zeros((looks.count, 1)), policy, looks.random)
    with pytest.raises(NotFinite, match="the state of look 17 is not a finite number"):
        agent.observe(state, trajectory)


def span(count: int) -> Span:
    return Span.of(0, count, jax.random.key(0))


def test_a_loop_stops_at_the_first_number_that_is_not_one():
    def update(state, turn):
        bad = turn.step == 5
        return state + 1, {"a": 1.0 * turn.step, "b": jnp.where(bad, jnp.inf, 2.0)}, where_first(bad, jnp.ones((1, 2)))

    fine = loop(update, jnp.zeros(()), ("a", "b"), span(5), 2)
    assert int(fine.culprit) == NO_CULPRIT
    assert (float(fine.state), float(fine.metrics["a"]), float(fine.metrics["b"])) == (5.0, 2.0, 2.0)
    spoilt = loop(update, jnp.zeros(()), ("a", "b"), span(9), 2)
    assert (int(spoilt.culprit), int(spoilt.step)) == (1, 5)
    np.testing.assert_array_equal(spoilt.evidence, [1.0, 1.0])


def test_what_the_last_update_of_a_loop_writes_is_looked_at_too():
    def update(state, turn):
        return jnp.where(turn.step == 4, jnp.inf, state + 1), {"a": jnp.ones(())}, jnp.zeros(2)

    assert int(loop(update, jnp.zeros(()), ("a",), span(4), 2).culprit) == NO_CULPRIT
    assert int(loop(update, jnp.zeros(()), ("a",), span(5), 2).culprit) == 1  # past the last metric
