"""ENODE through its contract: phases, exploring trajectories, determinism, traces, options."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_agent import ENV, drive, same
from tiny import ODE

import ctmle.dynamics.ode_fit as ode_fit_module
import ctmle.planning.improve as improve_module
from ctmle.agents import ENODE, Agent, ModelBased, Phase
from ctmle.agents.setbacks import MOST
from ctmle.finite import NotFinite
from ctmle.schedules import Equidistant, ExponentialGaps, UniformGaps

SCHEDULE = Equidistant(0.25, random_looks=False)


def begin(agent, key: int = 0):
    return agent.init(ENV.spec, jax.random.key(key))


def test_slopes_are_matched_once_and_then_stretches_predicted():
    agent = ENODE(ODE)
    assert isinstance(agent, Agent)
    assert isinstance(agent, ModelBased)
    state = drive(agent, begin(agent), 2, SCHEDULE)
    seen = []
    while agent.episode(state) < 3:
        while not agent.ready(state):
            standing = agent.standing(state)
            seen.append((standing.episode, standing.phase, standing.done, standing.total))
            state = agent.advance(state, SCHEDULE)
        state = drive(agent, state, 1, SCHEDULE)
    assert seen == [
        (1, "matching", 0, 18), (1, "matching", 4, 18), (1, "dynamics", 6, 18), (1, "dynamics", 10, 18),
        (1, "policy", 12, 18), (1, "policy", 16, 18),
        (2, "dynamics", 0, 12), (2, "dynamics", 4, 12), (2, "policy", 6, 12), (2, "policy", 10, 12),
    ]  # fmt: skip


def test_exploring_trajectories_come_first_and_are_left_out_of_the_history():
    agent = ENODE(ODE)
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
    count_calls(ode_fit_module, "ode_update")
    traces = count_calls(improve_module, "improve_update")
    schedule = ExponentialGaps(0.25, random_looks=False)
    agent = ENODE(replace(ODE, dynamics_rate=1.1e-3, critic_rate=1.2e-3))  # settings of its own: nothing is cached
    state = drive(agent, begin(agent), 3, schedule)
    first_episode = dict(traces)
    assert first_episode.keys() == {"ode_update", "improve_update"}
    drive(agent, state, 5, schedule)
    assert traces == first_episode


def test_same_key_same_state_to_the_last_bit():
    agent = ENODE(ODE)
    a, b, c = (drive(agent, begin(agent, key), 5, SCHEDULE) for key in (0, 0, 1))
    assert same(a, b)
    assert not same(a.belief, c.belief)


@pytest.mark.parametrize(
    ("changes", "schedule"),
    [
        ({"control": "closed-loop", "noise": "fixed"}, UniformGaps(0.25)),
        ({"solver": "adaptive", "matching_updates": 0, "exploring_trajectories": 0}, SCHEDULE),
    ],
)
def test_every_option_learns_finite_numbers(changes, schedule):
    agent = ENODE(replace(ODE, **changes))
    state = drive(agent, begin(agent), 4, schedule)
    before = state.belief.log_noise
    state, _, _ = agent.propose(state, schedule)
    for leaf in jax.tree.leaves(eqx.filter((state.belief, state.actor_critic), eqx.is_inexact_array)):
        assert bool(jnp.all(jnp.isfinite(leaf)))
    assert same(before, state.belief.log_noise) == (agent.config.noise == "fixed")


@pytest.mark.parametrize(
    ("setting", "phase"), [("matching_rate", "matching"), ("dynamics_rate", "dynamics")]
)  # fmt: skip
def test_a_rate_that_is_far_too_large_goes_back_and_is_named(setting, phase):
    agent = ENODE(replace(ODE, chunk=2, **{setting: 1e38}))
    state = drive(agent, begin(agent), 2, SCHEDULE)
    while agent.standing(state).phase != phase:
        state = agent.advance(state, SCHEDULE)
    after = agent.advance(state, SCHEDULE)
    assert int(after.setbacks) == 1
    assert same(after.belief, state.belief)
    with pytest.raises(NotFinite, match=rf"in the {phase} phase of episode 1, update \d.*: went back .* {MOST} times"):
        agent.propose(state, SCHEDULE)


def test_a_real_round_lowers_the_prediction_error():
    agent = ENODE(replace(ODE, dynamics_updates=150, matching_updates=50, policy_updates=1, chunk=50))
    state = drive(agent, begin(agent), 2, SCHEDULE)
    errors = []
    while int(state.phase) in (Phase.MATCHING, Phase.DYNAMICS):
        state = agent.advance(state, SCHEDULE)
        errors.append(float(state.metrics["prediction_error"]))
    assert errors[-1] < 0.7 * errors[1]
    assert np.all(np.isfinite(errors))
