"""ENODE through its contract: stages, exploring trajectories, determinism, traces, options."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_agent import ENV, drive, learned, same
from tiny import ODE

from ctmle.agents import Agent, ModelBasedAgent
from ctmle.models import ODELearner
from ctmle.options import apply
from ctmle.planning import ActorCritic
from ctmle.schedules import Equidistant, UniformGaps
from ctmle.training.failures import MOST_RETRIES, NotFinite

SCHEDULE = Equidistant(0.125, random_looks=False)


def begin(agent, key: int = 0):
    return agent.init(ENV.spec, jax.random.key(key))


def test_slopes_are_matched_once_and_then_stretches_predicted():
    agent = ODE
    assert isinstance(ODE, Agent)
    assert isinstance(ODE, ModelBasedAgent)
    state = drive(agent, begin(agent), 2, SCHEDULE)
    seen = []
    while agent.episode(state) < 3:
        while not agent.ready(state):
            now = agent.progress(state)
            seen.append((now.episode, now.stage, now.done, now.total))
            state = agent.advance(state, SCHEDULE)
        state = drive(agent, state, 1, SCHEDULE)
    assert seen == [
        (1, "matching", 0, 24), (1, "matching", 4, 24), (1, "dynamics", 6, 24), (1, "dynamics", 10, 24),
        (1, "policy", 12, 24), (1, "policy", 16, 24), (1, "policy", 18, 24), (1, "policy", 22, 24),
        (2, "dynamics", 0, 18), (2, "dynamics", 4, 18),
        (2, "policy", 6, 18), (2, "policy", 10, 18), (2, "policy", 12, 18), (2, "policy", 16, 18),
    ]  # fmt: skip


def test_exploring_trajectories_come_first_and_are_left_out_of_the_history():
    agent = ODE
    state = drive(agent, begin(agent), 2, SCHEDULE)
    state, exploring, _ = agent.propose(state, SCHEDULE)
    assert float(exploring.gain) == 1.0
    assert float(jnp.max(jnp.abs(exploring.signal.amplitudes))) > 0
    state = drive(agent, state, 1, SCHEDULE)
    assert agent.episode(state) == 1
    state, acting, _ = agent.propose(state, SCHEDULE)
    assert same(acting, agent.policy(state))
    assert same(acting.feedback, exploring.feedback)
    state = drive(agent, state, 3, SCHEDULE)
    pasts = agent.history(state)
    assert [past.episode for past in pasts] == [1, 2]
    assert same(pasts[0].policy, acting)
    assert all(float(jnp.max(jnp.abs(past.policy.signal.amplitudes))) == 0 for past in pasts)


def test_nothing_is_traced_again_as_data_grows(count_calls):
    count_calls(ODELearner, "update")
    traces = count_calls(ActorCritic, "update")
    schedule = UniformGaps(0.25)
    # Settings of its own, so that nothing is cached from other tests.
    agent = apply(ODE, {"control": "closed-loop", "noise": "fixed", "critic_rate": 1.2e-3})
    state = drive(agent, begin(agent), 3, schedule)
    first_episode = dict(traces)
    assert first_episode.keys() == {"ODELearner.update", "ActorCritic.update"}
    state = drive(agent, state, 5, schedule)
    assert traces == first_episode
    assert_finite(agent, state, schedule)


def test_same_key_same_state_to_the_last_bit():
    agent = ODE
    a, b, c = (drive(agent, begin(agent, key), 5, SCHEDULE) for key in (0, 0, 1))
    assert same(a, b)
    assert not same(a.trained["learner"], c.trained["learner"])


def test_adaptive_steps_without_matching_or_exploring_learn_finite_numbers():
    """Other options are those of the test of traces."""
    agent = apply(ODE, {"solver": "adaptive", "matching_updates": 0, "exploring_trajectories": 0})
    assert_finite(agent, drive(agent, begin(agent), 4, SCHEDULE), SCHEDULE)


def assert_finite(agent, state, schedule) -> None:
    before = state.trained["learner"].log_noise
    state, _, _ = agent.propose(state, schedule)
    for leaf in jax.tree.leaves(eqx.filter(state.trained, eqx.is_inexact_array)):
        assert bool(jnp.all(jnp.isfinite(leaf)))
    assert same(before, state.trained["learner"].log_noise) == (agent.learner.noise == "fixed")


@pytest.mark.parametrize(
    ("setting", "stage"), [("matching_rate", "matching"), ("dynamics_rate", "dynamics")]
)  # fmt: skip
def test_a_rate_that_is_far_too_large_goes_back_and_is_named(setting, stage):
    agent = apply(ODE, {"chunk": 2, setting: 1e38})
    state = drive(agent, begin(agent), 2, SCHEDULE)
    while agent.progress(state).stage != stage:
        state = agent.advance(state, SCHEDULE)
    after = agent.advance(state, SCHEDULE)
    assert int(after.retries) == 1
    drift, noise = (lambda s: learned(s).drift_net), (lambda s: s.trained["learner"].log_noise)
    assert all(same(of(after), of(state)) for of in (drift, noise))
    message = rf"in the {stage} stage of episode 1, update \d.*: retried {MOST_RETRIES} times"
    with pytest.raises(NotFinite, match=message):
        agent.propose(state, SCHEDULE)


def test_a_real_round_lowers_the_prediction_error():
    few = {"dynamics_updates": 150, "matching_updates": 50, "policy_updates": 1, "chunk": 50}
    # All drifts are to be learned: with the kinematics, there is little but noise in the error from the beginning.
    agent = apply(ODE, {**few, "kinematics": False})
    state = drive(agent, begin(agent), 2, SCHEDULE)
    errors = []
    while agent.progress(state).stage in ("matching", "dynamics"):
        state = agent.advance(state, SCHEDULE)
        errors.append(float(state.metrics["prediction_error"]))
    assert errors[-1] < 0.7 * errors[1]
    assert np.all(np.isfinite(errors))
