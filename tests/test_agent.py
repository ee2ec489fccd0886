"""CT-MLE through its contract: propose, observe, and nothing compiled again as data grows."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import LEARNER

import ctmle.dynamics.fit as fit_module
import ctmle.planning.improve as improve_module
from ctmle.agents import CTMLE, Agent, Phase
from ctmle.data import Trajectory, simulate
from ctmle.envs import Pendulum
from ctmle.schedules import Equidistant, Grid, Schedule

ENV = Pendulum(horizon=4.0)
SCHEDULE = Equidistant(0.125)


def drive(agent, state, trajectories: int, schedule: Schedule = SCHEDULE):
    for _ in range(trajectories):
        state, policy, times = agent.propose(state, schedule)
        key = jax.random.fold_in(jax.random.key(7), agent.standing(state).trajectories)
        state = agent.observe(state, simulate(ENV, policy, times, key, step=0.05))
    return state


def same(a, b) -> bool:
    leaves_a, leaves_b = (jax.tree.leaves(eqx.filter(tree, eqx.is_array)) for tree in (a, b))
    return all(np.array_equal(jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x,
                              jax.random.key_data(y) if jnp.issubdtype(y.dtype, jax.dtypes.prng_key) else y)
               for x, y in zip(leaves_a, leaves_b, strict=True))  # fmt: skip


def test_explores_first_then_learns_and_counts_looks():
    agent = CTMLE(LEARNER)
    assert isinstance(agent, Agent)
    state = agent.init(ENV.spec, jax.random.key(0))
    assert agent.episode(state) == 0
    state, policy, times = agent.propose(state, SCHEDULE)
    assert float(policy.gain) == 0.0
    assert times.count == 65
    state = drive(agent, state, 2)
    assert agent.episode(state) == 1
    assert int(state.phase) == Phase.DYNAMICS
    before = state.belief.ensemble
    state, policy, _ = agent.propose(state, SCHEDULE)
    assert float(policy.gain) == 1.0
    assert not same(before.drift_net, state.belief.ensemble.drift_net)
    assert same(before.drift_scale, state.belief.ensemble.drift_scale)
    assert int(state.data.looks) == 2 * 65
    assert all(np.isfinite(float(value)) for value in state.metrics.values())


def test_nothing_is_traced_again_as_data_grows(count_calls):
    count_calls(fit_module, "fit_update")
    traces = count_calls(improve_module, "improve_update")
    agent = CTMLE(
        replace(LEARNER, dynamics_rate=1.1e-3, critic_rate=1.1e-3)
    )  # settings of its own: nothing cached from other tests
    state = drive(agent, agent.init(ENV.spec, jax.random.key(0)), 3)
    first_episode = dict(traces)
    assert first_episode.keys() == {"fit_update", "improve_update"}
    drive(agent, state, 5)
    assert traces == first_episode


def test_same_key_same_state_to_the_last_bit():
    agent = CTMLE(LEARNER)
    a, b, c = (drive(agent, agent.init(ENV.spec, jax.random.key(k)), 4) for k in (0, 0, 1))
    assert same(a, b)
    assert not same(a.belief, c.belief)


@pytest.mark.parametrize(
    "changes",
    [
        {"objective": "score-matching"},
        {"objective": "score-matching", "gap_weighted": False, "control": "hold", "covariance": "euler"},
        {"chained": True, "diffusion": "constant"},
        {"solver": "adaptive"},
        {"optimism": False},
        {"trajectories_per_episode": 2},
    ],
)
def test_every_option_learns_finite_numbers(changes):
    agent = CTMLE(replace(LEARNER, **changes))
    state = drive(agent, agent.init(ENV.spec, jax.random.key(0)), 4)
    state, _, _ = agent.propose(state, SCHEDULE)
    for leaf in jax.tree.leaves(eqx.filter((state.belief, state.actor_critic), eqx.is_inexact_array)):
        assert bool(jnp.all(jnp.isfinite(leaf)))
    weight = float(state.metrics["optimism_weight"])
    assert weight == 0.0 if not agent.config.optimism else weight != 0.0


def test_zero_noise_and_tiny_gaps_stay_finite():
    env = Pendulum(sigma=0.0, horizon=4.0)
    agent = CTMLE(LEARNER)
    schedule = Grid((0.0, 1e-4, 0.5, 0.5001, 1.0, 2.0, 2.2, 4.0))
    state = agent.init(env.spec, jax.random.key(0))
    for _ in range(4):
        state, policy, times = agent.propose(state, schedule)
        state = agent.observe(state, simulate(env, policy, times, jax.random.key(1), step=0.05))
    assert all(np.isfinite(float(value)) for value in state.metrics.values())


def test_optimism_moves_the_fit_towards_the_advantage():
    """With a huge planning share the fit differs from the plain one, and the planning term it reports is higher."""
    plain, keen = (CTMLE(replace(LEARNER, dynamics_updates=40, eta_base=eta, chunk=40)) for eta in (1e9, 0.05))
    first = drive(plain, plain.init(ENV.spec, jax.random.key(0)), 2)
    assert same(*(agent.advance(first, SCHEDULE).belief for agent in (plain, keen)))  # the critic is untrained
    start = drive(plain, first, 1)
    calm, eager = (agent.advance(start, SCHEDULE) for agent in (plain, keen))
    assert not same(calm.belief.ensemble, eager.belief.ensemble)
    assert float(eager.metrics["planning_loss"]) < float(calm.metrics["planning_loss"])


def test_a_plant_of_the_users_own_needs_only_looks():
    """No simulator of ours: times and states from elsewhere, with the policy that was asked for."""
    agent = CTMLE(LEARNER)
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
