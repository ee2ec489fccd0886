"""CT-MLE through its contract: propose, observe, and nothing compiled again as data grows."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import AGENT, BASIS

from ctmle.agents import Agent, Oracle
from ctmle.data import Recorded, Trajectory
from ctmle.envs import Pendulum
from ctmle.lab.run import Saved
from ctmle.lab.storage.log import Mark
from ctmle.lab.storage.run_folder import Checkpoint
from ctmle.lab.storage.trees import arrays_of
from ctmle.models import Bridge, SDELearner, evidence
from ctmle.options import apply, flat
from ctmle.planning import ActorCritic
from ctmle.plants import simulate
from ctmle.schedules import Equidistant, Grid, Schedule

ENV = Pendulum(horizon=4.0)
SCHEDULE = Equidistant(0.125)
BOTH = ("ct-mle", "ct-mle basis")


def drive(agent, state, trajectories: int, schedule: Schedule = SCHEDULE):
    for _ in range(trajectories):
        state, policy, times = agent.propose(state, schedule)
        key = jax.random.fold_in(jax.random.key(7), agent.progress(state).trajectories)
        state = agent.observe(state, simulate(ENV, policy, times, key, step=0.05))
    return state


def learned(state):
    """Return the networks of the ensemble."""
    return state.trained["learner"].ensemble.stacked


def same(a, b) -> bool:
    leaves_a, leaves_b = (jax.tree.leaves(eqx.filter(tree, eqx.is_array)) for tree in (a, b))
    return all(np.array_equal(jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x,
                              jax.random.key_data(y) if jnp.issubdtype(y.dtype, jax.dtypes.prng_key) else y)
               for x, y in zip(leaves_a, leaves_b, strict=True))  # fmt: skip


def test_explores_first_then_learns_and_counts_looks():
    agent = AGENT
    assert isinstance(AGENT, Agent)
    state = agent.init(ENV.spec, jax.random.key(0))
    assert agent.episode(state) == 0
    state, policy, times = agent.propose(state, SCHEDULE)
    assert float(policy.gain) == 0.0
    assert times.count == 65
    state = drive(agent, state, 2)
    assert agent.episode(state) == 1
    assert int(state.stage) == 0
    before = learned(agent.advance(state, SCHEDULE))  # scales are measured when the episode begins
    state, policy, _ = agent.propose(state, SCHEDULE)
    assert float(policy.gain) == 1.0
    assert not same(before.drift_net, learned(state).drift_net)
    assert same(before.drift_scale, learned(state).drift_scale)
    assert int(state.data.looks) == 2 * 65
    assert all(np.isfinite(float(value)) for value in state.metrics.values())


def test_nothing_is_traced_again_as_data_grows(count_calls):
    count_calls(SDELearner, "update")
    traces = count_calls(ActorCritic, "update")
    # Settings of its own, so that nothing is cached from other tests.
    agent = apply(AGENT, {"critic_rate": 1.1e-3, "optimism": False, "trajectories_per_episode": 2})
    state = drive(agent, agent.init(ENV.spec, jax.random.key(0)), 4)
    first_episode = dict(traces)
    assert first_episode.keys() == {"SDELearner.update", "ActorCritic.update"}
    state = drive(agent, state, 5)
    assert traces == first_episode
    assert_finite(agent, state)


def test_a_basis_is_not_traced_again_until_there_is_four_times_the_data(count_calls):
    state = drive(BASIS, BASIS.init(ENV.spec, jax.random.key(0)), 4)  # fitted to 2 and to 3 trajectories of 64 gaps
    count_calls(evidence, "design")
    count_calls(Bridge, "seen")
    traces = count_calls(ActorCritic, "update")
    state = drive(BASIS, state, 3)
    assert int(state.known) == 6
    assert traces == {}
    assert_all_finite(state)


@pytest.mark.parametrize("agent", [AGENT, BASIS], ids=BOTH)
def test_same_key_same_state_to_the_last_bit(agent):
    a, b, c = (drive(agent, agent.init(ENV.spec, jax.random.key(k)), 4) for k in (0, 0, 1))
    assert same(a, b)
    assert not same(a.trained["learner"], c.trained["learner"])


@pytest.mark.parametrize(
    "changes",
    [
        {"objective": "score-matching"},
        {"objective": "score-matching", "gap_weighted": False, "control": "hold", "law": "euler"},
        {"chained": "always", "diffusion": "constant", "solver": "adaptive"},
    ],
)
def test_every_option_learns_finite_numbers(changes):
    """Optimism is off, and an episode two trajectories, in the test of traces."""
    agent = apply(AGENT, changes)
    assert_finite(agent, drive(agent, agent.init(ENV.spec, jax.random.key(0)), 4))


def assert_finite(agent, state) -> None:
    state, _, _ = agent.propose(state, SCHEDULE)
    assert_all_finite(state)
    weight = float(state.metrics["optimism_weight"])
    assert weight == 0.0 if not flat(agent)["optimism"] else weight != 0.0


def assert_all_finite(state) -> None:
    for leaf in jax.tree.leaves(eqx.filter(state.trained, eqx.is_inexact_array)):
        assert bool(jnp.all(jnp.isfinite(leaf)))


TINY_GAPS = (0.0, 1e-4, 0.5, 0.5001, 1.0, 2.0, 2.2, 4.0)
AND_SHORT_ONES = (0.0, 1e-4, *(i / 8 for i in range(1, 33)), 4.0 - 1e-4)
"""The longest gap is that of `SCHEDULE`, so that what is compiled for it serves here."""


@pytest.mark.parametrize(("agent", "times"), [(AGENT, TINY_GAPS), (BASIS, sorted(AND_SHORT_ONES))], ids=BOTH)
def test_zero_noise_and_tiny_gaps_stay_finite(agent, times):
    env, schedule = Pendulum(sigma=0.0, horizon=4.0), Grid(tuple(times))
    state = agent.init(ENV.spec, jax.random.key(0))
    for _ in range(4):
        state, policy, looks = agent.propose(state, schedule)
        state = agent.observe(state, simulate(env, policy, looks, jax.random.key(1), step=0.05))
    assert all(np.isfinite(float(value)) for value in state.metrics.values())
    assert_all_finite(state)


def test_one_gap_per_episode_is_enough_to_learn_from():
    """The paper's lambda = 1: looks at the start, at the end and at one random time, fewer than a subsequence has."""
    schedule = Equidistant(ENV.horizon)
    state = drive(AGENT, AGENT.init(ENV.spec, jax.random.key(0)), 3, schedule)
    assert int(state.data.looks) == 9
    before, after = state, AGENT.advance(state, schedule)
    assert all(np.isfinite(float(value)) for value in after.metrics.values())
    assert not same(learned(before), learned(after))


def test_optimism_moves_the_fit_towards_the_advantage():
    """With a huge planning share the fit differs from the plain one, and the planning term it reports is higher."""
    plain, keen = (apply(AGENT, {"dynamics_updates": 40, "eta_base": eta, "chunk": 40}) for eta in (1e9, 0.05))
    first = drive(plain, plain.init(ENV.spec, jax.random.key(0)), 2)
    assert same(*(learned(agent.advance(first, SCHEDULE)) for agent in (plain, keen)))  # the critic is untrained
    start = drive(plain, first, 1)
    calm, eager = (agent.advance(start, SCHEDULE) for agent in (plain, keen))
    assert not same(learned(calm), learned(eager))
    assert float(eager.metrics["planning_loss"]) < float(calm.metrics["planning_loss"])


def test_a_plant_of_the_users_own_needs_only_looks():
    """No simulator of ours: times and states from elsewhere, with the policy that was asked for."""
    agent = AGENT
    state = agent.init(ENV.spec, jax.random.key(0))
    for _ in range(3):
        state, policy, looks = agent.propose(state, SCHEDULE)
        y, states = np.array([np.pi, 0.0]), []
        previous = 0.0
        for t in np.asarray(looks.times):
            u = np.asarray(policy(jnp.asarray(t), jnp.asarray(y, jnp.float32)))
            y = y + (t - previous) * np.array([y[1], 15 * np.sin(y[0]) + 3 * u[0]])
            previous = t
            states.append(y)
        states = jnp.asarray(np.array(states), jnp.float32)
        controls = policy(looks.times, states)
        state = agent.observe(state, Trajectory(looks.times, states, controls, policy, looks.random))
    assert agent.episode(state) == 2


def test_the_oracle_plans_in_the_true_sde_with_nothing_to_learn():
    agent = Oracle(ENV, AGENT.improver, exploration=AGENT.exploration)
    state = drive(agent, agent.init(ENV.spec, jax.random.key(0)), 2)
    assert [(agent.progress(state).stage, agent.progress(state).total)] == [("policy", 12)]
    world = agent.world(state)
    y, u = jnp.ones((1, 1, 2)), jnp.ones((1, 1, 1))
    np.testing.assert_allclose(world.sde.drift(y, u)[0, 0], ENV.drift(y[0, 0], u[0, 0]))
    before = agent.policy(state)
    state, policy, _ = agent.propose(state, SCHEDULE)
    assert not same(before, policy)


def test_parts_that_do_not_fit_together_are_refused():
    for agent, members in ((AGENT, 2), (BASIS, 4)):
        with pytest.raises(
            ValueError, match=f"particles 1 is fewer than one for each of the {members} ensemble members"
        ):
            apply(agent, {"particles": 1})


def test_a_state_with_recorded_episodes_is_restored_as_it_was(tmp_path):
    """A log, or hardware that held its controls, before the first policy of the agent's own."""
    state = AGENT.init(ENV.spec, jax.random.key(0))
    for number in range(3):
        policy, looks = AGENT.policy(state), SCHEDULE.looks(jax.random.key(number), 4.0)
        seen = simulate(ENV, policy, looks, jax.random.key(number), step=0.05)
        drive = Recorded(seen.times, seen.controls) if number < 2 else policy
        state = AGENT.observe(state, Trajectory(seen.times, seen.states, seen.controls, drive, seen.random))
        checkpoint = Checkpoint(tmp_path, arrays_of(state), Mark(), False)
        assert same(Saved(AGENT, SCHEDULE, ENV.spec, 3).restore(checkpoint), state)
        assert (state.data.drives.policies is None) == (number < 2)
