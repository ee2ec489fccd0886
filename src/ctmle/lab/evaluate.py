"""How good a policy is: test trajectories on the true system, or imagined ones in the belief."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ctmle.config import EvaluationConfig, SuccessRule
from ctmle.data.finite import check_rewards, simulate_safely
from ctmle.data.holding import HoldingPolicy, hold_paths
from ctmle.data.trajectory import Trajectory, every_tick, simulate_many
from ctmle.envs.base import Env, Spec
from ctmle.envs.observation import ObservationKind
from ctmle.planning.policy import Feedback
from ctmle.planning.rollout import World, rollout
from ctmle.schedules.grid import Equidistant


class Score(eqx.Module):
    """The mean reward after the warm-up of each test trajectory, the lowest of each, and what is said of them."""

    each: np.ndarray
    lowest: np.ndarray
    success_at: float
    rule: SuccessRule

    @property
    def mean(self) -> float:
        return float(self.each.mean())

    @property
    def standard_error(self) -> float:
        return float(self.each.std(ddof=1) / len(self.each) ** 0.5) if len(self.each) > 1 else 0.0

    @property
    def lowest_reward(self) -> float:
        return float(self.lowest.min())

    @property
    def success(self) -> bool:
        return (self.mean if self.rule == "mean" else self.lowest_reward) >= self.success_at

    @property
    def success_share(self) -> float:
        """How many of the trajectories succeed by themselves: a mean of 0.9 can hide failures."""
        judged = self.each if self.rule == "mean" else self.lowest
        return float((judged >= self.success_at).mean())


def evaluate(
    env: Env,
    policy: Any,
    key: PRNGKeyArray,
    config: EvaluationConfig,
    *,
    step: float = 0.01,
    observation: ObservationKind = "angles",
) -> Score:
    """Run `policy` on N_test trajectories of T seconds from the start and average the reward after the warm-up.

    The reward is taken every `test_gap` seconds, or at every tick of a policy that holds its controls. (Such a policy
    knows its horizon, so that is how long its tests are.)
    """
    spec = env.spec_for(observation)
    looks = Equidistant(config.test_gap, random_looks=False).looks(key, config.test_seconds or env.horizon)
    keys = jax.random.split(key, config.test_trajectories)

    def simulation(step: float, stop_short: bool) -> Trajectory:
        if isinstance(policy, HoldingPolicy):
            return every_tick(hold_paths(env, policy, keys, step=step, observation=observation, stop_short=stop_short))
        return simulate_many(env, policy, looks, keys, step=step, observation=observation, stop_short=stop_short)

    tests = simulate_safely(env, spec.observation, simulation, step, "a test trajectory")
    states = np.asarray(tests.states, dtype=np.float64)
    rewards = np.asarray(rewards_of(spec, tests.states, tests.controls), dtype=np.float64)
    check_rewards(env, states, rewards, "in a test trajectory")
    counted = rewards[:, np.asarray(tests.times)[0] >= config.warm_up]
    return Score(counted.mean(axis=1), counted.min(axis=1), config.success, config.rule)


def imagined_score(
    world: World, spec: Spec, feedback: Feedback, key: PRNGKeyArray, config: EvaluationConfig, *, step: float
) -> float:
    """The score that the agent expects: the same measure on trajectories imagined in the belief."""
    particles = max(1, config.test_trajectories // world.members)
    steps = round((config.test_seconds or spec.horizon) / step)
    return float(_imagine(world, spec, feedback, key, particles, steps, step, config.warm_up))


@eqx.filter_jit
def _imagine(
    world: World,
    spec: Spec,
    feedback: Feedback,
    key: PRNGKeyArray,
    particles: int,
    steps: int,
    step: float,
    warm_up: float,
) -> Float[Array, ""]:
    start_key, noise_key = jax.random.split(key)
    start = jax.vmap(jax.vmap(spec.reset))(jax.random.split(start_key, (world.members, particles)))
    noise = jax.random.normal(noise_key, (steps, *start.shape))
    path = rollout(world, spec, feedback, start, noise, step=step)
    return jnp.mean(path.rewards[round(warm_up / step) :])


@eqx.filter_jit
def rewards_of(
    spec: Spec, states: Float[Array, "*batch observed"], controls: Float[Array, "*batch control"]
) -> Float[Array, "*batch"]:
    """In one program."""
    return spec.reward(states, controls)


@eqx.filter_jit
def learned_diffusion(
    world: World, y: Float[Array, "looks observed"], u: Float[Array, "looks control"]
) -> Float[Array, " observed"]:
    """Averaged over members and looks."""
    members = jnp.broadcast_to(y, (world.members, *y.shape)), jnp.broadcast_to(u, (world.members, *u.shape))
    return jnp.mean(world.diffusion(*members), axis=(0, 1))


@eqx.filter_jit
def observed_diffusion(
    env: Env, spec: Spec, y: Float[Array, "looks observed"], u: Float[Array, "looks control"]
) -> Array:
    """The true diffusion in the coordinates that the agent sees, averaged over looks: what it should learn."""

    def one(y: Array, u: Array) -> Array:
        x = spec.observation.decode(y)
        slopes = jax.jacfwd(spec.observation.encode)(x)
        return jnp.sqrt(jnp.sum((slopes * env.diffusion(x, u)) ** 2, axis=-1))

    return jnp.mean(jax.vmap(one)(y, u), axis=0)
