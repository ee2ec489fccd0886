"""One gradient step of soft actor-critic: critics, actor, temperature, target critics."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from ctmle.agents.sac_tacos.losses import actor_loss, critic_loss, soft_target, temperature_loss
from ctmle.agents.sac_tacos.networks import Actor, Critics, init_actor, init_critics
from ctmle.agents.sac_tacos.replay import Decisions, Replay
from ctmle.agents.sac_tacos.statistics import Statistics
from ctmle.config import SacTacosConfig
from ctmle.dynamics.loop import Chunk, Span, Turn, loop, where_first

METRICS: tuple[str, ...] = ("critic_loss", "actor_loss", "temperature", "entropy", "critic_value")


class Learner(eqx.Module):
    """What is learned, with its optimisers; `statistics` normalise what the networks see."""

    statistics: Statistics
    actor: Actor
    critics: Critics
    targets: Critics
    log_temperature: Float[Array, ""]
    optimisers: tuple[Any, ...]


class Update(eqx.Module):
    """How to learn: numbers, fixed over a run."""

    hidden: tuple[int, ...] = eqx.field(static=True)
    batch: int = eqx.field(static=True)
    actor_rate: float = eqx.field(static=True)
    critic_rate: float = eqx.field(static=True)
    temperature_rate: float = eqx.field(static=True)
    initial_temperature: float = eqx.field(static=True)
    target_entropy: float = eqx.field(static=True)
    target_rate: float = eqx.field(static=True)
    pessimism: float = eqx.field(static=True)
    clip: float = eqx.field(static=True)

    @staticmethod
    def of(config: SacTacosConfig, actions: int) -> "Update":
        return Update(
            hidden=config.hidden,
            batch=config.batch,
            actor_rate=config.actor_rate,
            critic_rate=config.critic_rate,
            temperature_rate=config.temperature_rate,
            initial_temperature=config.initial_temperature,
            target_entropy=config.target_entropy * actions,
            target_rate=config.target_rate,
            pessimism=config.pessimism,
            clip=config.gradient_clip,
        )

    @property
    def optimisers(self) -> tuple[optax.GradientTransformation, ...]:
        """Of actor, critics and temperature."""
        rates = (self.actor_rate, self.critic_rate, self.temperature_rate)
        return tuple(optax.chain(optax.clip_by_global_norm(self.clip), optax.adam(rate)) for rate in rates)

    def init(self, inputs: int, first: Float[Array, " action"], key: PRNGKeyArray) -> Learner:
        """`first` is the action that the actor starts around."""
        actor_key, critic_key = jax.random.split(key)
        actor = init_actor(inputs, first, self.hidden, actor_key)
        critics = init_critics(inputs, first.shape[0], self.hidden, critic_key)
        log_temperature = jnp.log(jnp.asarray(self.initial_temperature))
        parts = (actor, critics, log_temperature)
        optimisers = [o.init(eqx.filter(part, eqx.is_array)) for o, part in zip(self.optimisers, parts, strict=True)]
        return Learner(Statistics.empty(inputs), actor, critics, critics, log_temperature, tuple(optimisers))


def sac_update(
    update: Update, learner: Learner, decisions: Decisions, pace: Float[Array, ""], key: PRNGKeyArray
) -> tuple[Learner, dict[str, Array]]:
    """One step, of `pace` times the usual size, on a batch of decisions whose inputs are normalised already."""
    temperature = jnp.exp(learner.log_temperature)
    noise, noise_next = jax.random.normal(key, (2, *decisions.action.shape))
    action_next, log_prob_next = learner.actor.sample(decisions.seen_next, noise_next)
    values_next = learner.targets(decisions.seen_next, action_next)
    target = soft_target(
        decisions.reward,
        decisions.discount,
        values_next,
        log_prob_next,
        temperature,
        update.target_entropy,
        update.pessimism,
    )

    def of_critics(critics: Critics) -> Array:
        return critic_loss(critics(decisions.seen, decisions.action), target)

    def of_actor(actor: Actor) -> tuple[Array, Array]:
        action, log_prob = actor.sample(decisions.seen, noise)
        return actor_loss(critics(decisions.seen, action), log_prob, temperature, update.pessimism), log_prob

    def stepped(i: int, part: Any, gradient: Any) -> tuple[Any, Any]:
        updates, state = update.optimisers[i].update(gradient, learner.optimisers[i])
        return eqx.apply_updates(part, jax.tree.map(lambda leaf: pace * leaf, updates)), state

    loss, gradient = eqx.filter_value_and_grad(of_critics)(learner.critics)
    critics, critic_state = stepped(1, learner.critics, gradient)
    (policy_loss, log_prob), gradient = eqx.filter_value_and_grad(of_actor, has_aux=True)(learner.actor)
    actor, actor_state = stepped(0, learner.actor, gradient)
    gradient = jax.grad(temperature_loss)(learner.log_temperature, log_prob, update.target_entropy)
    log_temperature, temperature_state = stepped(2, learner.log_temperature, gradient)
    targets = jax.tree.map(lambda new, old: old + update.target_rate * (new - old), critics, learner.targets)
    optimisers = (actor_state, critic_state, temperature_state)
    learner = Learner(learner.statistics, actor, critics, targets, log_temperature, optimisers)
    measured = (loss, policy_loss, temperature, -jnp.mean(log_prob), jnp.mean(target))
    return learner, dict(zip(METRICS, measured, strict=True))


def sac_updates(
    update: Update,
    learner: Learner,
    replay: Replay,
    span: Span,
) -> Chunk[Learner]:
    """All updates of a span in one compiled loop; metrics are their means."""

    def one(learner: Learner, turn: Turn) -> tuple[Learner, dict[str, Array], Array]:
        batch_key, noise_key = jax.random.split(turn.key)
        batch = replay.sample(batch_key, update.batch)
        inputs = map(learner.statistics.normalise, (batch.seen, batch.seen_next))
        normalised = eqx.tree_at(lambda b: (b.seen, b.seen_next), batch, tuple(inputs))
        learner, metrics = sac_update(update, learner, normalised, turn.pace, noise_key)
        odd = ~jnp.isfinite(batch.reward) | ~jnp.all(jnp.isfinite(batch.seen_next), axis=-1)
        return learner, metrics, where_first(odd, batch.seen)

    return loop(one, learner, METRICS, span, replay.rows.seen.shape[-1])
