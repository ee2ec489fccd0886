"""The parts of SAC-TaCoS: losses by hand, the squashed density, the ring buffer, running statistics, truncation."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp
from scipy import integrate, stats

from ctmle.agents.kept import EMPTY, Kept
from ctmle.agents.sac_tacos.mdp import ExtendedMdp, Holding
from ctmle.agents.sac_tacos.memory import LEAST_SPREAD, Decisions, Driven, Replay, Statistics
from ctmle.agents.sac_tacos.networks import action_values, init_actor, init_critics, sample_action, squashed_log_prob
from ctmle.agents.sac_tacos.soft_actor_critic import (
    SoftActorCritic,
    actor_loss,
    cautious,
    critic_loss,
    soft_target,
    soft_value,
    temperature_loss,
)
from ctmle.data import Trajectory
from ctmle.envs import LinearQuadratic, Pendulum

LEARNER = SoftActorCritic(
    hidden=(8, 8), batch=4, initial_temperature=0.5, target_entropy=-1.0, target_rate=0.25, pessimism=0.5
)  # fmt: skip


def mdp(env=None, **changes) -> ExtendedMdp:
    settings = {
        "tick": 0.05, "min_hold": 1, "max_hold": 30, "gamma": 0.9, "switch_cost": 0.3, "reward_scale": 2.0,
        "bootstrap_at_horizon": True,
    }  # fmt: skip
    return ExtendedMdp((env or Pendulum()).spec, Holding(**(settings | changes)))


def test_losses_by_hand():
    values = jnp.asarray([[1.0, 4.0], [2.0, 3.0]])
    log_prob = jnp.asarray([-1.0, 0.5])
    value = soft_value(values, log_prob, jnp.asarray(0.2), -2.0, 1.0)
    target = soft_target(jnp.asarray([0.1, 0.2]), jnp.asarray([0.5, 0.0]), value)
    # First: 0.1 + 0.5 (1 - 0.2 (-1 - 2)) = 0.9. Second: an end, so the reward alone.
    np.testing.assert_allclose(target, [0.9, 0.2], rtol=1e-6)
    # ((1 - 0.9)^2 + (4 - 0.2)^2) / 4 + ((2 - 0.9)^2 + (3 - 0.2)^2) / 4
    assert float(critic_loss(values, target)) == pytest.approx((0.01 + 14.44 + 1.21 + 7.84) / 4, rel=1e-6)
    # mean of 0.2 (-1) - 1 and 0.2 (0.5) - 3
    assert float(actor_loss(values, log_prob, jnp.asarray(0.2), 1.0)) == pytest.approx((-1.2 - 2.9) / 2, rel=1e-6)
    np.testing.assert_allclose(cautious(values, 0.0), [1.5, 3.5])
    np.testing.assert_allclose(cautious(values, 0.5), [1.25, 3.25])
    np.testing.assert_allclose(cautious(values, 1.0), [1.0, 3.0])
    # entropy 0.25 is above its target -2, so the temperature falls: d/dlog(alpha) = 2.25
    slope = jax.grad(temperature_loss)(jnp.asarray(-1.0), log_prob, -2.0)
    assert float(slope) == pytest.approx(2.25, rel=1e-6)


def test_no_gradient_through_the_target():
    def loss(values_next):
        value = soft_value(values_next, jnp.zeros(1), jnp.asarray(0.1), -1.0, 1.0)
        target = soft_target(jnp.ones(1), jnp.ones(1), value)
        return critic_loss(jnp.zeros((2, 1)), target)

    np.testing.assert_array_equal(jax.grad(loss)(jnp.ones((2, 1))), 0.0)


@given(mean=st.floats(-2, 2), log_spread=st.floats(-2, 0.5))
def test_squashed_density_integrates_to_one(mean, log_spread):
    spread = np.exp(log_spread)

    def density(action):
        raw = np.arctanh(action)
        parts = (jnp.asarray([x], jnp.float32) for x in (raw, (raw - mean) / spread, log_spread))
        return float(jnp.exp(squashed_log_prob(*parts)))

    points = np.tanh(mean + spread * stats.norm.ppf(np.linspace(0.0005, 0.9995, 41)))
    mass = integrate.trapezoid([density(a) for a in points], points)
    assert mass == pytest.approx(1.0, abs=0.05)
    expected = stats.norm.pdf(np.arctanh(points[20]), mean, spread) / (1 - points[20] ** 2)
    assert density(points[20]) == pytest.approx(expected, rel=1e-3)


def test_an_update_moves_every_part_the_right_way():
    learner = LEARNER.init(mdp(), jax.random.key(0))
    key = jax.random.key(1)
    batch = Decisions(
        seen=jax.random.normal(key, (64, 4)), action=jnp.tanh(jax.random.normal(key, (64, 2))),
        reward=jnp.full(64, 5.0), discount=jnp.zeros(64), seen_next=jnp.zeros((64, 4)),
    )  # fmt: skip
    later, metrics = eqx.filter_jit(LEARNER.gradient_step)(learner, batch, jnp.ones(()), key)
    before, after = (
        float(jnp.mean(action_values(part.critics, batch.seen, batch.action))) for part in (learner, later)
    )
    assert before < after < 5.0
    for old, new, target in zip(
        *(jax.tree.leaves(t) for t in (learner.targets, later.critics, later.targets)), strict=True
    ):
        np.testing.assert_allclose(target, 0.75 * old + 0.25 * new, rtol=1e-5, atol=1e-7)
    assert float(metrics["entropy"]) > 2 * LEARNER.target_entropy
    assert float(later.log_temperature) < float(learner.log_temperature)
    assert float(metrics["critic_value"]) == pytest.approx(5.0)


def test_twins_differ_and_batches_are_rows():
    critics, actor = (
        init_critics(3, 2, (8, 8), jax.random.key(0)),
        init_actor(3, jnp.zeros(2), (8, 8), jax.random.key(0)),
    )
    seen, action = jax.random.normal(jax.random.key(1), (5, 3)), jnp.zeros((5, 2))
    values = action_values(critics, seen, action)
    assert values.shape == (2, 5)
    first = init_actor(3, jnp.asarray([0.0, -1.0]), (8, 8), jax.random.key(0))
    start, _ = sample_action(first, jnp.zeros(3), jnp.zeros(2))
    np.testing.assert_allclose(start, [0.0, -0.8], atol=0.05)
    assert not np.allclose(values[0], values[1])
    np.testing.assert_allclose(action_values(critics, seen[2], action[2]), values[:, 2], rtol=1e-5, atol=1e-6)
    mode, _ = sample_action(actor, seen, jnp.zeros((5, 2)))
    np.testing.assert_array_equal(mode, jnp.tanh(actor(seen)[:, :2]))


def numbered(numbers) -> Decisions:
    numbers = jnp.asarray(numbers, jnp.float32)
    wide = numbers[:, None]
    return Decisions(wide, wide, numbers, numbers, wide)


@given(
    capacity=st.integers(1, 9),
    batches=st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=6),
    seed=st.integers(0, 99),
)
def test_ring_buffer_keeps_the_newest_in_any_order_of_real_rows(capacity, batches, seed):
    replay, came, number = Replay.empty(capacity, 1, 1), [], 0
    for real in batches:
        rows = np.arange(number, number + 6)
        replay = replay.add(numbered(rows), jnp.asarray(real))
        came += [float(n) for n, r in zip(rows, real, strict=True) if r]
        number += 6
    assert int(replay.added) == len(came)
    newest = came[-capacity:]
    assert int(replay.size) == len(newest)
    assert sorted(np.asarray(replay.rows.reward)[: len(newest)].tolist()) == sorted(newest)
    if came:
        drawn = replay.sample(jax.random.key(seed), 20)
        assert set(np.asarray(drawn.reward).tolist()) <= set(newest)
        np.testing.assert_array_equal(drawn.seen[:, 0], drawn.reward)


def test_history_keeps_the_newest_trajectory_and_a_sample_with_their_policies():
    history = Kept.empty(2, Driven.empty(4, 1, 1, {"weight": jnp.zeros(3)}))
    assert np.all(np.asarray(history.numbers) == EMPTY)
    for number in range(5):
        policy, key = {"weight": jnp.full(3, float(number))}, jax.random.key(number)
        driven = Driven.of(numbered_looks(number), jnp.asarray(2 + number), 4, policy)
        history = history.add(jnp.asarray(number), driven, key)
        assert int(history.numbers[-1]) == number
        for row, held in enumerate(np.asarray(history.numbers)):
            if held != EMPTY:
                kept = history.row(row)
                assert kept.trajectory.looks == min(2 + held, 4)
                np.testing.assert_array_equal(kept.trajectory.states, numbered_looks(held).states[: 2 + held])
                np.testing.assert_array_equal(kept.policy["weight"], held)


def test_every_trajectory_is_equally_likely_to_stay_in_the_history():
    """Chi-square over 2000 histories that keep 3 of 8 trajectories, with a margin that chance never exceeds."""
    runs, kept, added = 2000, 3, 8

    @jax.jit
    @jax.vmap
    def sample(key):
        driven = Driven.of(numbered_looks(0), jnp.asarray(4), 4, {})
        history = Kept.empty(kept, Driven.empty(4, 1, 1, {}))
        for number in range(added):
            own = jax.random.fold_in(key, number)
            history = history.add(jnp.asarray(number), driven, own)
        return history.numbers

    numbers = np.asarray(sample(jax.random.split(jax.random.key(0), runs)))
    assert np.all(numbers[:, -1] == added - 1)
    assert all(len(set(row)) == kept for row in numbers[:, :-1])
    counts = np.bincount(numbers[:, :-1].ravel(), minlength=added)
    assert stats.chisquare(counts).pvalue > 1e-4


def numbered_looks(number: int) -> Trajectory:
    return Trajectory(jnp.arange(4.0), jnp.full((4, 1), 10.0 * number) + jnp.arange(4.0)[:, None], jnp.zeros((4, 1)))


@given(
    rows=hnp.arrays(np.float32, (12, 2), elements=st.floats(-100, 100, width=32)),
    real=st.lists(st.booleans(), min_size=12, max_size=12),
)
def test_statistics_in_batches_are_those_of_all_rows(rows, real):
    real = np.asarray(real)
    statistics = Statistics.empty(2)
    for part in (slice(0, 5), slice(5, 12)):
        statistics = statistics.add(jnp.asarray(rows[part]), jnp.asarray(real[part]))
    if not real.any():
        np.testing.assert_array_equal(statistics.normalise(jnp.ones(2)), 1.0)
        return
    kept = rows[real].astype(float)
    np.testing.assert_allclose(statistics.mean, kept.mean(0), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(statistics.spread, np.maximum(kept.std(0), LEAST_SPREAD), rtol=1e-2, atol=1e-2)


@given(ticks=st.integers(1, 30), control=st.floats(-2, 2))
def test_actions_and_decisions_are_each_others_inverse(ticks, control):
    m = mdp()
    action = m.action(jnp.asarray([control], jnp.float32), jnp.asarray(0.05 * ticks, jnp.float32))
    assert np.all(np.abs(action) <= 1 + 1e-6)
    back = m.decision(action)
    assert float(back.control[0]) == pytest.approx(control, abs=1e-5)
    assert float(back.hold) == pytest.approx(0.05 * ticks, rel=1e-5)


def test_random_actions_are_within_bounds_and_of_every_length():
    m = mdp(min_hold=2, max_hold=8)
    actions = jax.vmap(m.random_action)(jax.random.split(jax.random.key(0), 400))
    assert np.all(np.abs(actions) <= 1)
    holds = jax.vmap(m.decision)(actions).hold
    np.testing.assert_allclose(np.unique(np.round(np.asarray(holds) / 0.05)), np.arange(2, 9))


def test_one_length_of_hold_is_allowed():
    m = mdp(min_hold=3, max_hold=3)
    assert float(m.decision(jnp.asarray([0.0, 0.9])).hold) == pytest.approx(0.15)
    assert np.all(np.isfinite(m.action(jnp.zeros(1), jnp.asarray(0.15))))


LOOKS = Trajectory(
    times=jnp.asarray([0.0, 0.5, 2.0, 10.0]),
    states=jnp.asarray([[np.pi, 0.0], [3.0, 1.0], [2.0, 2.0], [0.1, 0.0]]),
    controls=jnp.asarray([[1.0], [-2.0], [2.0], [2.0]]),
    rewards=jnp.asarray([0.1, 0.2, 0.3]),
)


@pytest.mark.parametrize(("bootstrap", "last"), [(True, 0.9**160), (False, 0.0)])
def test_a_time_limit_is_bootstrapped_and_an_end_is_not(bootstrap, last):
    rows = mdp(bootstrap_at_horizon=bootstrap).decisions(LOOKS)
    np.testing.assert_allclose(rows.discount, [0.9**10, 0.9**30, last], rtol=1e-4, atol=1e-12)
    np.testing.assert_allclose(rows.reward, 2.0 * (np.array([0.1, 0.2, 0.3]) - 0.3), rtol=1e-5)
    np.testing.assert_allclose(rows.seen[:, -1], [10.0, 9.5, 8.0])
    np.testing.assert_allclose(rows.seen_next[:, -1], [9.5, 8.0, 0.0])


def test_an_episode_cut_before_the_horizon_is_no_end():
    looks = Trajectory(LOOKS.times[:3], LOOKS.states[:3], LOOKS.controls[:3], rewards=jnp.asarray([0.1, 0.2]))
    rows = mdp(bootstrap_at_horizon=False).decisions(looks)
    np.testing.assert_allclose(rows.discount, [0.9**10, 0.9**30], rtol=1e-4)


def test_rewards_that_were_not_measured_are_the_trapezium_of_the_looks():
    m = mdp(LinearQuadratic(), switch_cost=0.0, reward_scale=1.0)
    looks = Trajectory(jnp.asarray([0.0, 0.5]), jnp.asarray([[0.0], [0.5]]), jnp.asarray([[1.0], [1.0]]))
    here, there = 1 - 0.1, 1 - 0.25 - 0.1
    expected = 0.5 * 0.5 * (here + 0.9**10 * there)
    np.testing.assert_allclose(m.decisions(looks).reward, [expected], rtol=1e-5)
