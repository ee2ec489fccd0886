"""SAC-TaCoS through its contract: propose, observe, practise; determinism; nothing compiled again as data grows."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_agent import same
from tiny import TACOS

from ctmle.agents import Agent
from ctmle.agents.sac_tacos.soft_actor_critic import SoftActorCritic
from ctmle.data import Trajectory
from ctmle.envs import Pendulum
from ctmle.lab.storage.trees import load_tree, save_tree
from ctmle.options import apply
from ctmle.plants import SimulatedSDE, simulate
from ctmle.plants.ticks import run_many_ticks
from ctmle.schedules import Equidistant

ENV = Pendulum(horizon=4.0)  # as in tiny.RUN: programs are compiled once for both
PLANT = jax.random.key(7)


def drive(agent, state, trajectories: int):
    for _ in range(trajectories):
        state, policy, looks = agent.propose(state)
        key = jax.random.fold_in(PLANT, int(state.trajectories))
        state = agent.observe(state, simulate(ENV, policy, looks, key, step=0.05))
    return state


def start(agent, seed=0):
    return agent.init(ENV.spec, jax.random.key(seed))


def test_explores_first_then_learns_and_counts_looks():
    agent = TACOS
    assert issubclass(type(TACOS), Agent)
    assert agent.practises
    state = start(agent)
    assert agent.episode(state) == 0
    state, policy, looks = agent.propose(state)
    assert bool(policy.exploring)
    first = simulate(ENV, policy, looks, jax.random.key(0), step=0.05)
    state = agent.observe(state, first)
    assert agent.ready(state)
    state, policy, looks = agent.propose(state)
    second = simulate(ENV, policy, looks, jax.random.key(1), step=0.05)
    state = agent.observe(state, second)
    assert int(state.looks) == first.looks + second.looks
    assert agent.episode(state) == 1
    decisions = first.looks + second.looks - 2
    assert int(state.pending) == round(TACOS.updates_per_decision * decisions)
    before = state.learner
    state, policy, _ = agent.propose(state)
    assert not bool(policy.exploring)
    assert int(state.updates) == round(TACOS.updates_per_decision * decisions)
    assert not same(before.actor, state.learner.actor)
    assert all(np.isfinite(float(value)) for value in state.metrics.values())


def test_the_tested_policy_is_the_one_that_acted_without_its_noise():
    """What is seen in an episode changes the policy only through gradient steps."""
    agent = TACOS
    state, acted, looks = agent.propose(drive(agent, start(agent), 2))
    after = agent.policy(agent.observe(state, simulate(ENV, acted, looks, PLANT, step=0.05)))
    assert same((acted.actor, acted.statistics), (after.actor, after.statistics))
    t, y = jnp.asarray(0.5), jnp.asarray([1.0, 0.3])
    assert same(after.decide(t, y), after.decide(t, y))
    assert same(acted.decide(t, y), acted.decide(t, y))
    assert not same(acted.decide(t, y), after.decide(t, y))


def test_same_key_same_state_to_the_last_bit():
    agent = TACOS
    a, b, c = (drive(agent, start(agent, seed), 4) for seed in (0, 0, 1))
    assert same(a, b)
    assert not same(a.learner, c.learner)


def test_a_saved_state_goes_on_bit_for_bit_from_any_moment(tmp_path):
    agent = TACOS
    state = drive(agent, start(agent), 3)
    moments = [state]
    while not agent.ready(state):
        state = agent.advance(state)
        moments.append(state)
    assert len(moments) > 2
    expected = drive(agent, state, 1)
    for moment in moments:
        save_tree(tmp_path / "state.safetensors", moment)
        loaded = load_tree(tmp_path / "state.safetensors", start(agent))
        assert same(drive(agent, loaded, 1), expected)


def test_the_compiled_loop_does_what_the_two_calls_do():
    agent = TACOS
    step_by_step = drive(agent, start(agent), 4)
    keys = jax.vmap(lambda i: jax.random.fold_in(PLANT, i))(jnp.arange(4))
    at_once = agent.practise(start(agent), SimulatedSDE(ENV, step=0.05), keys)
    assert int(at_once.looks) == int(step_by_step.looks)
    assert int(at_once.updates) == int(step_by_step.updates)
    assert int(at_once.pending) == int(step_by_step.pending)
    for a, b in zip(*(jax.tree.leaves(s.replay) for s in (at_once, step_by_step)), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-3)
    for a, b in zip(*(jax.tree.leaves(s.learner.actor) for s in (at_once, step_by_step)), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-2, atol=2e-3)


def test_nothing_is_traced_again_as_data_grows(count_calls):
    traces = count_calls(SoftActorCritic, "update")
    agent = apply(TACOS, {"actor_rate": 1.1e-3})  # settings of its own: nothing is cached from other tests
    state = drive(agent, start(agent), 3)
    first = dict(traces)
    assert first.keys() == {"SoftActorCritic.update"}
    drive(agent, state, 3)
    assert traces == first


def test_several_trajectories_per_episode_are_learned_from_together():
    agent = apply(TACOS, {"trajectories_per_episode": 2})
    state = start(agent)
    for _ in range(3):
        state = agent.observe(state, LOOKS)
    assert agent.episode(state) == 1
    assert int(state.fresh) == 1
    state = agent.observe(state, LOOKS)
    assert agent.episode(state) == 2
    assert not agent.ready(state)


def test_a_plant_of_the_users_own_needs_only_decisions():
    """No simulator of ours: look, decide, hold, look again; rewards measured or not."""
    for measured in (True, False):
        agent = TACOS
        state = start(agent)
        for _ in range(3):
            state, policy, _ = agent.propose(state)
            t, y = 0.0, np.array([np.pi, 0.0])
            times, states, controls, rewards = [t], [y], [], []
            while t < ENV.horizon - 1e-6:
                u, hold = policy.decide(jnp.asarray(t), jnp.asarray(y, jnp.float32))
                hold = min(float(hold), ENV.horizon - t)
                y = y + hold * np.array([y[1], 15 * np.sin(y[0]) + 3 * float(u[0])])
                t += hold
                times.append(t)
                states.append(y)
                controls.append(np.asarray(u))
                rewards.append(0.1)
            times, states, controls = (np.array(c) for c in (times, states, [*controls, controls[-1]]))
            looks = Trajectory(*(jnp.asarray(c, jnp.float32) for c in (times, states, controls)))  # pyright: ignore
            state = agent.observe(state, replace(looks, rewards=jnp.asarray(rewards) if measured else None))
        assert agent.episode(state) == 2


LOOKS = Trajectory(jnp.asarray([0.0, 0.5]), jnp.zeros((2, 2)), jnp.zeros((2, 1)), rewards=jnp.zeros(1))


@pytest.mark.parametrize(
    ("looks", "complaint"),
    [
        (Trajectory(jnp.zeros(1), jnp.zeros((1, 2)), jnp.zeros((1, 1))), "no gap to learn from"),
        (replace(LOOKS, times=jnp.asarray([0.5, 0.5])), "must increase strictly"),
        (
            replace(LOOKS, states=jnp.zeros((2, 3))),
            r"states must have the shape \[2, 2\], a row for each entry of times, not \[2, 3\]",
        ),
        (
            replace(LOOKS, rewards=jnp.zeros(2)),
            r"rewards must have the shape \[1\], a row for each entry of times but the last",
        ),
        (replace(LOOKS, states=jnp.full((2, 2), jnp.nan)), "states: look 0, coordinate 0, is NaN or inf"),
    ],
)
def test_trajectories_that_cannot_be_are_refused(looks, complaint):
    agent = TACOS
    with pytest.raises(ValueError, match=complaint):
        agent.observe(start(agent), looks)


def test_tests_of_a_policy_are_the_same_again():
    agent = TACOS
    policy = agent.policy(drive(agent, start(agent), 3))
    keys = jax.random.split(jax.random.key(3), 2)
    assert same(run_many_ticks(ENV, policy, keys, step=0.05), run_many_ticks(ENV, policy, keys, step=0.05))


def test_the_history_is_a_sample_of_the_trajectories_and_the_newest():
    agent = apply(TACOS, {"policies_kept": 2})
    state = drive(agent, start(agent), 2)
    assert agent.history(state) == []
    drove = []
    for _ in range(4):
        state, policy, looks = agent.propose(state)
        trajectory = simulate(ENV, policy, looks, jax.random.fold_in(PLANT, int(state.trajectories)), step=0.05)
        drove.append((agent.policy(state), trajectory))
        state = agent.observe(state, trajectory)
    pasts = agent.history(state)
    assert [past.sampled for past in pasts] == [True, True, False]
    assert pasts[-1].episode == 4
    assert len({past.episode for past in pasts[:2]}) == 2
    for past in pasts:
        policy, trajectory = drove[past.episode - 1]
        assert same(past.policy.actor, policy.actor)
        np.testing.assert_array_equal(past.trajectory.states, trajectory.states)


def test_holds_that_do_not_fit_the_plant_are_refused():
    for change, complaint in (
        ({"tick": 5.0}, "tick 5 is longer than the horizon 4 s"),
        ({"min_hold": 9, "tick": 0.5}, "min_hold 9 ticks"),
    ):
        with pytest.raises(ValueError, match=complaint):
            apply(TACOS, change).fits(ENV.spec, Equidistant())
    with pytest.raises(ValueError, match="min_hold 11 is longer than max_hold 10"):
        apply(TACOS, {"min_hold": 11})
