"""Imagined trajectories, returns, gradients through the SDE, and a known optimum."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st

from ctmle.data import Dataset, Drives, Trajectory, Transitions
from ctmle.envs import Acrobot, CartPole, CartPoleSwingUp, Env, LinearQuadratic, Pendulum
from ctmle.models import Context, DiagonalNetwork, Members, Optimism, TrueSDE, Values, World
from ctmle.models.optimism import advantage
from ctmle.models.world import SpecReward
from ctmle.planning import (
    ActorCritic,
    Memory,
    MixedStarts,
    Policy,
    SmoothSignals,
    init_feedback,
    plain,
    random_signal,
    returns_to_go,
    rollout,
    silent_signal,
)
from ctmle.planning.information import information, stacked
from ctmle.planning.rest import best_rest
from ctmle.planning.starts import data_box
from ctmle.training import Mlp, Span, run_updates
from ctmle.training.mlp import with_fixed_networks


@pytest.mark.usefixtures("x64", "strict_dtypes")
@pytest.mark.parametrize("prepare", [lambda world: world, with_fixed_networks], ids=["networks", "fixed networks"])
def test_gradient_through_a_rollout_is_the_finite_difference(prepare):
    spec = Pendulum().spec
    ensemble = DiagonalNetwork(hidden=(16, 8)).init(spec, jax.random.key(0), 2)
    world = World(prepare(ensemble), SpecReward(spec))
    feedback = init_feedback(spec, jax.random.key(1), (16,))
    feedback = jax.tree.map(lambda leaf: leaf.astype(jnp.float64) if eqx.is_array(leaf) else leaf, feedback)
    start = jax.random.normal(jax.random.key(2), (2, 3, 2), dtype=jnp.float64)

    @eqx.filter_jit
    def value(feedback):
        noise = jax.random.normal(jax.random.key(3), (10, *start.shape))
        path = rollout(world, feedback, (jnp.zeros((2, 3)), start), noise, step=0.1)
        return jnp.mean(returns_to_go(path.rewards, path.rewards[-1], 0.1, 5.0)[0])

    gradient = eqx.filter_jit(eqx.filter_grad(value))(feedback)
    direction = jax.tree.map(
        lambda leaf: jax.random.normal(jax.random.key(4), leaf.shape, leaf.dtype) if eqx.is_array(leaf) else None,
        eqx.filter(feedback, eqx.is_array),
    )
    along = sum(jnp.sum(a * b) for a, b in zip(jax.tree.leaves(gradient), jax.tree.leaves(direction), strict=True))
    small = 1e-5
    ahead = eqx.apply_updates(feedback, jax.tree.map(lambda d: small * d, direction))
    behind = eqx.apply_updates(feedback, jax.tree.map(lambda d: -small * d, direction))
    difference = (value(ahead) - value(behind)) / (2 * small)
    np.testing.assert_allclose(along, difference, rtol=1e-5)


def test_a_fixed_network_says_the_same_and_has_no_gradient_by_its_weights():
    net = Mlp((3, 8, 2), jax.nn.elu, jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (5, 3))
    np.testing.assert_array_equal(with_fixed_networks(net)(x), net(x))
    gradient = eqx.filter_grad(lambda fixed: jnp.sum(fixed(x) ** 2))(with_fixed_networks(net))
    assert all(not np.any(leaf) for leaf in jax.tree.leaves((gradient.net.weights, gradient.transposed)))


@pytest.mark.usefixtures("x64", "strict_dtypes")
@given(st.lists(st.floats(-1, 1), min_size=2, max_size=12), st.floats(-5, 5), st.floats(0.5, 10))
def test_returns_to_go_are_discounted_trapezoids(rewards, last, tau):
    step, values = 0.1, np.asarray(rewards)
    result = returns_to_go(jnp.asarray(values), jnp.asarray(last), step, tau)
    for k in range(len(values)):
        t = step * np.arange(len(values) - k)
        expected = np.trapezoid(np.exp(-t / tau) * values[k:], dx=step) + np.exp(-t[-1] / tau) * last
        np.testing.assert_allclose(result[k], expected, atol=1e-9)


def test_each_particle_follows_its_own_member():
    spec = Pendulum(sigma=0.0).spec
    ensemble = DiagonalNetwork(hidden=(8,), diffusion="constant").init(spec, jax.random.key(0), 3)
    y, u = jnp.ones((3, 4, 2)), jnp.ones((3, 4, 1))
    for i in range(3):
        member = jax.tree.map(lambda leaf, i=i: leaf[i] if eqx.is_array(leaf) else leaf, ensemble.stacked)
        np.testing.assert_allclose(ensemble.drift(y, u)[i], member.drift(y[i], u[i]), rtol=1e-5)


def context_of(env: Env, states: jax.Array, improver: ActorCritic | None = None) -> Context:
    """Return the context of an update in the true SDE, after one trajectory through these states."""
    spec, improver = env.spec, improver or ActorCritic(hidden=(8,))
    like = Trajectory(jnp.zeros(len(states)), states, jnp.zeros((len(states), spec.control_size)), jnp.zeros(()))
    return Context(
        spec=spec,
        data=Dataset.empty(like, 2).add(like),
        world=World(TrueSDE(env), SpecReward(spec)),
        values=improver.values(improver.init(spec, jax.random.key(9))),
        episode=jnp.asarray(1, jnp.int32),
        longest_gap=0.1,
    )


NO_MEMORY = Memory.empty(LinearQuadratic().spec, 0)


def test_starts_mix_data_reset_and_box():
    starts = MixedStarts(0.0, 0.0, reset_share=0.3, box_share=0.3)
    pool = starts.prepare(context_of(LinearQuadratic(), jnp.asarray([[-3.0], [0.0], [5.0]])))
    times, everything = starts.sample(pool, NO_MEMORY, jax.random.key(0), 2, 2000, 1.0)
    assert times.shape == (2, 2000)
    values = np.asarray(everything).ravel()
    at_reset, at_data = np.isclose(values, 1.0), np.isin(values, [-3.0, 0.0, 5.0])
    assert abs(at_reset.mean() - 0.3) < 0.03
    assert abs(at_data.mean() - 0.4) < 0.03
    box = values[~at_reset & ~at_data]
    assert box.min() > -3
    assert box.max() < 5
    assert abs(box.mean() - 1.0) < 0.3


def test_seen_starts_may_be_those_of_the_newest_trajectories():
    env, starts = LinearQuadratic(), MixedStarts(0.0, 0.0, reset_share=0.0, box_share=0.0, recent=1)
    context = context_of(env, jnp.asarray([[-3.0], [0.0], [5.0]]))
    newer = Trajectory(jnp.zeros(2), jnp.asarray([[1.0], [2.0]]), jnp.zeros((2, 1)), jnp.zeros(()))
    context = eqx.tree_at(lambda c: c.data, context, context.data.add(newer))
    _, chosen = starts.sample(starts.prepare(context), NO_MEMORY, jax.random.key(0), 2, 50, 1.0)
    assert set(np.asarray(chosen).ravel()) == {1.0, 2.0}


def test_actor_critic_finds_the_known_optimum():
    """On the true linear-quadratic SDE, the policy's slope at 0 comes near the Riccati gain (discounting lowers it)."""
    env = LinearQuadratic(sigma=1.0)
    improver = ActorCritic(
        hidden=(32, 32), updates=1000, particles=64, critic_rate=3e-3, critic_steps=5, critic_batch=128,
        bootstrap_episodes=1, starts=MixedStarts(0.0, 0.0, reset_share=0.2, box_share=0.4),
    )  # fmt: skip
    context = context_of(env, jnp.linspace(-1.0, 1.0, 9)[:, None], improver)
    state = improver.init(env.spec, jax.random.key(0))
    outcome = run_updates(improver, "policy", context, state, Span.of(0, 1000, jax.random.key(1)))
    x = jnp.asarray([[-0.3], [0.3]])
    u = np.asarray(improver.feedback(improver.finish(outcome.state, context))(jnp.zeros(2), x)).ravel()
    gain = -(u[1] - u[0]) / 0.6
    assert gain == pytest.approx(env.best_gain, rel=0.2)
    assert np.isfinite(float(outcome.metrics["critic_loss"]))


def test_signals_are_smooth_bounded_in_their_double_integral_and_use_the_range():
    spec = LinearQuadratic().spec
    t = jnp.arange(0.0, 10.0, 0.001)
    for seed in range(10):
        signal = random_signal(spec, jax.random.key(seed))
        u = np.asarray(jax.vmap(signal)(t))[:, 0]
        speed = np.cumsum(u) * 0.001
        assert np.abs(np.cumsum(speed) * 0.001).max() < 10 * np.abs(u).max()
        assert np.abs(u).max() > 0.4 * spec.control_high[0]


def test_a_policy_is_feedback_plus_signal_within_bounds():
    spec = Pendulum().spec
    feedback = init_feedback(spec, jax.random.key(0), (8,))
    signal = random_signal(spec, jax.random.key(1))
    y, t = jax.random.normal(jax.random.key(2), (50, 2)), jnp.linspace(0.0, 5.0, 50)
    without = Policy(feedback, silent_signal(spec, 3), jnp.ones(()))(t, y)
    explore = Policy(feedback, signal, jnp.zeros(()))(t, y)
    both = Policy(feedback, signal, jnp.ones(()))(t, y)
    np.testing.assert_allclose(without, feedback(t, y))
    np.testing.assert_allclose(explore, jnp.clip(signal(t), -2, 2))
    np.testing.assert_allclose(both, jnp.clip(feedback(t, y) + signal(t), -2, 2), atol=1e-6)


def test_advantage_is_reward_plus_discounted_target_minus_value():
    spec = Pendulum().spec
    state = ActorCritic(hidden=(8,)).init(spec, jax.random.key(0))
    other = jax.tree.map(lambda leaf: 2 * leaf if eqx.is_array(leaf) else leaf, state.critic)
    y, y_next, u = jnp.ones((2, 3, 2)), 2 * jnp.ones((2, 3, 2)), jnp.ones((2, 3, 1))
    gap = jnp.full((2, 3), 0.25)
    u_next = -u
    batch = Transitions(jnp.zeros((2, 3)), y, u, gap, y_next, u_next, Drives.closed(None, 2))
    found = advantage(SpecReward(spec), Values(state.critic, other, 5.0), batch)
    gained = 0.5 * 0.25 * (spec.reward(y, u) + np.exp(-0.05) * spec.reward(y_next, u_next))
    expected = gained + np.exp(-0.05) * other(gap, y_next) - state.critic(batch.t, y)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@given(st.integers(2, 50))
def test_optimism_is_one_to_ten_from_episode_2_on_and_fades_with_eta(episode):
    table, weak, now = Optimism(), Optimism(eta_base=400.0), jnp.asarray(episode)
    assert float(table.share(jnp.asarray(1))) == 0.0
    assert float(table.share(now)) == pytest.approx(0.1)
    assert float(weak.share(now)) == pytest.approx(0.001)
    assert table.eta(episode) == 4.0 / episode


def test_a_literal_eta_lets_optimism_grow_with_the_episode():
    table, literal = Optimism(), Optimism(annealing="literal")
    assert float(literal.share(jnp.asarray(1))) == 0.0
    for episode in (2, 5, 10):
        now = jnp.asarray(episode)
        assert float(literal.share(now)) == pytest.approx(episode * float(table.share(now)))


@pytest.mark.parametrize(
    ("settings", "gap", "steps"),
    [
        ({}, 0.125, (10, 0.1)),
        ({"samples": 5, "step": 0.125}, 0.125, (5, 0.125)),
        ({"samples": 5, "step": 0.125}, 0.5, (20, 0.125)),
        ({"samples": 5, "step": 2.0}, 0.03, (5, 0.03)),
        ({"samples": 3, "step": 0.1}, 0.125, (6, 0.0625)),
    ],
)
def test_imagined_trajectories_last_for_seconds_or_for_samples_of_the_gap(settings, gap, steps):
    assert ActorCritic(**settings).steps(gap) == steps


def test_a_rollout_of_samples_is_as_long_as_their_gaps_and_saturation_costs_only_if_it_is_asked_to():
    """On one trajectory of a constant reward 1 the actor's loss is minus the discounted time, plus the cost."""

    class Constant(LinearQuadratic):
        def reward(self, x, u):
            return jnp.ones(())

    env = Constant(sigma=0.0)
    spec = env.spec
    losses = {}
    for cost in (0.0, 0.5):
        improver = ActorCritic(hidden=(8,), samples=4, step=0.05, particles=4, saturation_cost=cost)
        state = improver.init(spec, jax.random.key(0))
        saturated = eqx.tree_at(lambda s: s.feedback.net.biases[-1], state, jnp.asarray([5.0]))
        weights = saturated.feedback.net.weights[-1]
        saturated = eqx.tree_at(lambda s: s.feedback.net.weights[-1], saturated, jnp.zeros_like(weights))
        blind = jax.tree.map(lambda leaf: 0 * leaf if eqx.is_array(leaf) else leaf, saturated.target)
        saturated = eqx.tree_at(lambda s: s.target, saturated, blind)
        context = context_of(env, jnp.asarray([[0.0], [1.0]]), improver)
        outcome = run_updates(improver, "policy", context, saturated, Span.of(0, 1, jax.random.key(1)))
        losses[cost] = float(outcome.metrics["actor_loss"])
    assert losses[0.0] == pytest.approx(-5.0 * (1 - np.exp(-0.4 / 5.0)), rel=1e-3)  # 4 gaps of 0.1 s
    assert losses[0.5] - losses[0.0] == pytest.approx(0.5 * (5.0 - 3.0) ** 2, rel=1e-3)


def test_smooth_signals_act_alone_at_first_and_on_top_of_the_policy_later():
    spec, exploration = Pendulum().spec, SmoothSignals(strength=0.25)
    feedback, key = init_feedback(spec, jax.random.key(0), (8,)), jax.random.key(1)
    first, later = (exploration.controller(None, spec, feedback, first=f, key=key) for f in (True, False))
    assert [float(policy.gain) for policy in (first, later, plain(spec, feedback))] == [0.0, 1.0, 1.0]
    np.testing.assert_allclose(later.signal.amplitudes, 0.25 * first.signal.amplitudes)
    y, t = jnp.zeros((3, 2)), jnp.arange(3.0)
    np.testing.assert_allclose(plain(spec, feedback)(t, y), feedback(t, y))


def test_settings_of_the_actor_critic_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"policy_step 2 is longer than policy_horizon 1"):
        ActorCritic(step=2.0)
    with pytest.raises(ValueError, match="together at most 1"):
        MixedStarts(reset_share=0.6, box_share=0.5)


@pytest.mark.parametrize(
    "env", [Pendulum(), CartPole(), CartPoleSwingUp(), Acrobot()], ids=lambda env: type(env).__name__
)
def test_the_best_rest_is_found(env):
    """Every system here can be held still where its reward is 1."""
    size = len(env.state_names)
    box = (-3.0 * jnp.ones(size), 3.0 * jnp.ones(size))
    for seed in range(3):
        rest, reward = best_rest(World(TrueSDE(env), SpecReward(env.spec)), env.spec, box, jax.random.key(seed))
        assert float(reward) > 0.97
        assert float(jnp.max(jnp.abs(env.drift(rest, jnp.zeros(env.spec.control_size))))) < 2.0


@pytest.mark.parametrize("width", [0.05, 0.01])
def test_pooled_starts_go_on_where_the_last_trajectories_ended_and_some_start_anew(width):
    starts = MixedStarts(pool_share=0.5, rest_share=0.2, rest_width=width, box_share=0.3)
    context = context_of(LinearQuadratic(), jnp.asarray([[-3.0], [0.0], [5.0]]))
    memory = Memory(100.0 + jnp.arange(4000.0)[:, None], jnp.asarray([1.5]), jnp.asarray(0.0), jnp.ones(()))
    _, chosen = starts.sample(starts.prepare(context), memory, jax.random.key(0), 2, 2000, 1.2)
    values = np.asarray(chosen)[..., 0]
    pooled, other = values[:, :1000], values[:, 1000:]
    went_on = pooled > 99
    np.testing.assert_array_equal(pooled[went_on], (100.0 + np.arange(4000.0).reshape(2, 2000)[:, :1000])[went_on])
    assert abs(went_on.mean() - 0.8) < 0.03
    np.testing.assert_allclose(pooled[~went_on], 1.0)  # the reset of this system
    near_rest = np.abs(other - 1.5) <= width * 4.0 + 1e-5
    assert abs(near_rest.mean() - (0.4 + 0.6 * width)) < 0.02
    assert other.min() > -3.01
    assert other.max() < 5.01


def test_angles_of_the_box_are_whole_circles_if_asked():
    states = jnp.asarray([[0.1, -1.0], [0.4, 2.0]])
    data = context_of(Pendulum(), states).data
    low, high = data_box(Pendulum().spec, data, circles=True)
    np.testing.assert_allclose((low, high), [(-np.pi, -1.0), (np.pi, 2.0)], rtol=1e-6)
    low, high = data_box(Pendulum().spec, data)
    np.testing.assert_allclose((low, high), [(0.1, -1.0), (0.4, 2.0)], rtol=1e-6)


def planned(improver: ActorCritic, updates: int = 60):
    """Return the context and the state after a round in the true linear-quadratic system."""
    context = context_of(LinearQuadratic(sigma=1.0), jnp.linspace(-1.0, 1.0, 9)[:, None], improver)
    state = improver.begin(improver.init(context.spec, jax.random.key(0)), context, 1)
    state = run_updates(improver, "policy", context, state, Span.of(0, updates, jax.random.key(1))).state
    return context, improver.finish(state, context)


def test_a_policy_that_was_better_stays():
    improver = ActorCritic(hidden=(16, 16), updates=60, particles=32)
    context, state = planned(improver)
    assert same_leaves(improver.feedback(state), state.feedback)
    promise = np.asarray(state.promise)
    assert promise[0] > -1.0
    spoilt = eqx.tree_at(
        lambda s: s.feedback.net.biases, state, jax.tree.map(lambda b: b + 2.0, state.feedback.net.biases)
    )
    kept = improver.finish(spoilt, context)
    assert same_leaves(improver.feedback(kept), state.feedback)
    np.testing.assert_array_equal(kept.promise, promise)
    newest = ActorCritic(hidden=(16, 16), updates=60, particles=32, guard=False)
    assert same_leaves(newest.feedback(newest.finish(spoilt, context)), spoilt.feedback)


def test_the_kept_policy_is_judged_again_in_a_new_world():
    improver = ActorCritic(hidden=(16, 16), updates=60, particles=32)
    context, state = planned(improver)
    noisier = World(TrueSDE(LinearQuadratic(sigma=6.0)), context.world.reward)
    again = improver.begin(state, dataclasses.replace(context, world=noisier), 2)
    assert float(again.promise[0]) < float(state.promise[0]) - 0.02


def test_rounds_end_when_the_policy_is_enough():
    improver = ActorCritic(hidden=(16, 16), updates=60, particles=32, rounds=3)
    stages = improver.stages(1)
    assert [stage.optional for stage in stages] == [False, True, True]
    assert len({stage.stream for stage in stages}) == 3
    _, state = planned(improver, updates=200)
    best = float(state.memory.best_reward)
    size = abs(best) + 1e-3
    for short, gain, enough in (
        (0.0, 1.0, True), (0.04 * abs(best), 1.0, True), (0.1 * size, 1.0, False),
        (0.1 * abs(best), 0.0, True), (0.1 * abs(best), -1.0, True), (0.3 * size, 0.0, False),
    ):  # fmt: skip
        found = (jnp.asarray([0.0, best - short]), jnp.asarray(gain))
        assert improver.has_enough(eqx.tree_at(lambda s: (s.promise, s.gain), state, found)) == enough
    unknown = improver.init(LinearQuadratic().spec, jax.random.key(0))
    assert not improver.has_enough(unknown)


def test_a_world_is_judged_in_all_that_is_possible():
    calm, wild = TrueSDE(LinearQuadratic(sigma=0.0)), TrueSDE(LinearQuadratic(sigma=9.0))
    world = World(calm, SpecReward(LinearQuadratic().spec))
    assert world.doubted is world
    assert dataclasses.replace(world, plausible=wild).doubted.sde is wild


class Disputed(Members):
    """Two models of a double integrator that differ in what a control above 0.5 does."""

    @property
    def members(self) -> int:
        return 2

    @property
    def noisy(self) -> bool:
        return True

    def member(self, number):
        raise AssertionError("all members are asked together")

    def drift(self, y, u):
        effect = jnp.asarray([1.0, -1.0])[: len(y), None] * jnp.maximum(u[..., 0] - 0.5, 0.0)
        return jnp.stack([y[..., 1], u[..., 0] + effect], axis=-1)

    def diffusion(self, y, u):
        return 0.1 * jnp.ones_like(y)


def test_a_model_that_is_unsure_is_asked_by_the_signal_that_tells_most():
    spec = Pendulum(horizon=4.0).spec
    world = World(Disputed(), SpecReward(spec))
    still = plain(spec, init_feedback(spec, jax.random.key(0), (8,)))
    loud, quiet = (random_signal(spec, jax.random.key(1), strength=strength) for strength in (1.0, 0.1))
    tried = [still, *(Policy(still.feedback, signal, jnp.ones(())) for signal in (quiet, loud))]
    told = information(world, spec, stacked(tried), jax.random.key(2), 20, 0.1)
    assert float(told[0]) == pytest.approx(0.0, abs=1e-3)
    assert float(told[2]) > 1.0 > float(told[1])
    asking = SmoothSignals(candidates=4, unsure=0.5)
    loud_policy = Policy(still.feedback, loud, jnp.ones(()))
    assert asking.acting(still, world, spec, 2.0, jax.random.key(3)) is still  # it is sure of what its policy meets
    chosen = asking.acting(loud_policy, world, spec, 2.0, jax.random.key(3))
    again = information(world, spec, stacked([loud_policy, chosen]), jax.random.key(3), 20, 0.1)
    assert float(again[1]) >= float(again[0])
    assert SmoothSignals().acting(loud_policy, world, spec, 2.0, jax.random.key(3)) is loud_policy


def same_leaves(one, other) -> bool:
    return all(bool(jnp.array_equal(a, b)) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True))
