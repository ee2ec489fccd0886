"""The continuous-time actor-critic: better controls by differentiating returns through the believed SDE."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from ctmle.dynamics.descent import Descent
from ctmle.dynamics.loop import Chunk, Span, Turn, loop, where_first
from ctmle.dynamics.mlp import Mlp, with_fixed_networks
from ctmle.dynamics.spread import compiled_over_devices, mean_gradient
from ctmle.envs.base import Spec
from ctmle.planning.policy import Feedback, init_feedback
from ctmle.planning.rollout import Rollout, World, rollout
from ctmle.planning.starts import Starts

METRICS: tuple[str, ...] = ("rollout_reach", "rollout_reward", "actor_loss", "actor_gradient", "critic_loss")
"""In the order in which one that is not finite spoils the next."""


SATURATION_COST = 0.01
"""Small beside any reward worth having; enough to keep a policy alive where the reward is flat."""


class Critic(eqx.Module):
    """V(y): the discounted reward to come under the current policy."""

    net: Mlp
    spec: Spec

    def __call__(self, y: Float[Array, "*batch observed"]) -> Float[Array, "*batch"]:
        return self.net(self.spec.observation.features(y))[..., 0]


class ActorCritic(eqx.Module):
    """Policy and critic with their optimisers, and the target critic that returns are bootstrapped from."""

    feedback: Feedback
    critic: Critic
    target: Critic
    actor_optimiser: Any
    critic_optimiser: Any


class Improve(eqx.Module):
    """How to improve: numbers, fixed over a run. Times are in seconds."""

    hidden: tuple[int, ...] = eqx.field(static=True)
    horizon: float = eqx.field(static=True)
    step: float = eqx.field(static=True)
    discount_time: float = eqx.field(static=True)
    particles: int = eqx.field(static=True)
    actor_descent: Descent
    critic_descent: Descent
    critic_steps: int = eqx.field(static=True)
    critic_batch: int = eqx.field(static=True)
    target_every: int = eqx.field(static=True)

    @property
    def steps(self) -> int:
        return max(1, round(self.horizon / self.step))

    def init(self, spec: Spec, key: PRNGKeyArray) -> ActorCritic:
        actor_key, critic_key = jax.random.split(key)
        feedback = init_feedback(spec, actor_key, self.hidden)
        critic = Critic(Mlp((spec.observation.feature_size, *self.hidden, 1), jnp.tanh, critic_key), spec)
        return ActorCritic(
            feedback=feedback,
            critic=critic,
            target=critic,
            actor_optimiser=self.actor_descent.init(feedback),
            critic_optimiser=self.critic_descent.init(critic),
        )


def saturation(raw: Float[Array, "..."]) -> Float[Array, ""]:
    """How far tanh outputs are beyond 0.995 of their range, where they have no gradient to come back by."""
    return jnp.mean(jax.nn.relu(jnp.abs(raw) - 3.0) ** 2)


def returns_to_go(
    rewards: Float[Array, "points *batch"], last_value: Float[Array, "*batch"], step: float, discount_time: float
) -> Float[Array, "points *batch"]:
    """Discounted reward from each point on, plus the discounted value at the end: n-step TD targets."""
    discount = jnp.exp(-step / discount_time)

    def back(value: Array, pair: tuple[Array, Array]) -> tuple[Array, Array]:
        here, there = pair
        value = 0.5 * step * (here + discount * there) + discount * value
        return value, value

    _, values = jax.lax.scan(back, last_value, (rewards[:-1], rewards[1:]), reverse=True)
    return jnp.concatenate([values, last_value[None]])


def improve_update(
    improve: Improve,
    spec: Spec,
    world: World,
    starts: Starts,
    bootstrap: Float[Array, ""],
    state: ActorCritic,
    turn: Turn,
) -> tuple[ActorCritic, dict[str, Array], Float[Array, " observed"]]:
    """One actor step through the SDE, then `critic_steps` critic steps on the points that it visited."""
    start_key, noise_key, critic_key = jax.random.split(turn.key, 3)
    start = starts.sample(start_key, world.members, improve.particles // world.members)

    members, particles, size = start.shape
    noise = jax.random.normal(noise_key, (members, improve.steps, particles, size))

    def actor_loss(feedback: Feedback, parts: tuple[World, Array, Array]) -> tuple[Array, Rollout]:
        world, start, noise = parts
        path = rollout(world, spec, feedback, start, jnp.swapaxes(noise, 0, 1), step=improve.step)
        last = bootstrap * state.target(path.states[-1])
        gained = jnp.mean(returns_to_go(path.rewards, last, improve.step, improve.discount_time)[0])
        return SATURATION_COST * saturation(feedback.raw(path.states)) - gained, path

    (loss, path), gradient = mean_gradient(actor_loss, state.feedback, (world, start, noise))
    norm = optax.tree.norm(gradient)
    updates, actor_optimiser = improve.actor_descent(state.feedback, gradient, norm, state.actor_optimiser, turn)
    feedback = eqx.apply_updates(state.feedback, updates)

    points = path.states.reshape(-1, path.states.shape[-1])
    targets = returns_to_go(path.rewards, state.target(path.states[-1]), improve.step, improve.discount_time)
    critic, critic_optimiser, critic_loss = _fit_critic(
        improve, state.critic, state.critic_optimiser, points, targets.reshape(-1), replace(turn, key=critic_key)
    )
    refresh = (turn.step + 1) % improve.target_every == 0
    target = jax.tree.map(
        lambda new, old: jnp.where(refresh, new, old) if eqx.is_array(new) else new, critic, state.target
    )
    measured = (
        jnp.max(jnp.abs(path.states)),
        jnp.mean(path.rewards),
        loss,
        norm,
        critic_loss,
    )
    bad = ~jnp.isfinite(path.rewards)
    state = ActorCritic(feedback, critic, target, actor_optimiser, critic_optimiser)
    return state, dict(zip(METRICS, measured, strict=True)), where_first(bad, path.states)


def _fit_critic(
    improve: Improve, critic: Critic, optimiser: Any, points: Array, targets: Array, turn: Turn
) -> tuple[Critic, Any, Array]:
    """Mean-squared temporal-difference error on minibatches of visited points."""
    count = min(improve.critic_batch, points.shape[0])
    arrays, static = eqx.partition(critic, eqx.is_array)

    def loss(arrays: Any, batch: tuple[Array, Array]) -> tuple[Array, None]:
        points, targets = batch
        return jnp.mean((eqx.combine(arrays, static)(points) - targets) ** 2), None

    def body(carry: tuple[Any, Any], batch: tuple[Array, Array]) -> tuple[tuple[Any, Any], Array]:
        arrays, optimiser = carry
        (value, _), gradient = mean_gradient(loss, arrays, batch)
        norm = optax.tree.norm(gradient)
        updates, optimiser = improve.critic_descent(arrays, gradient, norm, optimiser, turn)
        return (eqx.apply_updates(arrays, updates), optimiser), value

    chosen = jax.random.randint(turn.key, (improve.critic_steps, count), 0, points.shape[0])
    (arrays, optimiser), losses = jax.lax.scan(body, (arrays, optimiser), (points[chosen], targets[chosen]))
    return eqx.combine(arrays, static), optimiser, jnp.mean(losses)


@compiled_over_devices
def improve_updates(
    improve: Improve,
    spec: Spec,
    world: World,
    starts: Starts,
    bootstrap: Float[Array, ""],
    state: ActorCritic,
    span: Span,
) -> Chunk[ActorCritic]:
    """All updates of a span in one compiled loop; metrics are their means."""
    world = with_fixed_networks(world)

    def update(state: ActorCritic, turn: Turn) -> tuple[ActorCritic, dict[str, Array], Array]:
        return improve_update(improve, spec, world, starts, bootstrap, state, turn)

    return loop(update, state, METRICS, span, spec.observation.size)
