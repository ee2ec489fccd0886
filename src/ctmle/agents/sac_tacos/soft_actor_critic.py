"""Soft actor-critic as a trainer: critics, actor, temperature, target critics."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from ctmle.agents.sac_tacos.losses import actor_loss, critic_loss, soft_target, temperature_loss
from ctmle.agents.sac_tacos.mdp import ExtendedMdp
from ctmle.agents.sac_tacos.networks import Actor, Critics, init_actor, init_critics
from ctmle.agents.sac_tacos.replay import Decisions, Replay, Statistics
from ctmle.settings import Count, Finite, Positive, Share, Widths
from ctmle.training.updates import Step, Trainer, Update, where_first


class SacState(eqx.Module):
    """Networks and temperature with their optimisers; `statistics` normalise the networks' inputs."""

    statistics: Statistics
    actor: Actor
    critics: Critics
    targets: Critics
    log_temperature: Float[Array, ""]
    optimisers: tuple[Any, ...]


@dataclass(frozen=True)
class SoftActorCritic(Trainer):
    """Soft actor-critic (Haarnoja et al., 2018) on decisions of the extended MDP."""

    hidden: Widths = (64, 64)
    """Hidden widths of actor and critics (ReLU; the critics' layers are normalised)."""
    batch: Count = 128
    """Decisions per gradient step."""
    actor_rate: Positive = 1e-3
    """Learning rate of the actor."""
    critic_rate: Positive = 1e-3
    """Learning rate of the critics."""
    temperature_rate: Positive = 1e-3
    """Learning rate of the entropy's temperature."""
    initial_temperature: Positive = 0.1
    """Temperature at the start."""
    target_entropy: Finite = -0.5
    """Entropy that the policy is held to, per dimension of an action (its controls and its hold)."""
    target_rate: Share = 0.02
    """[tau] How far the target critics move towards the critics at each gradient step."""
    pessimism: Share = 0.0
    """How far values move from the twin critics' mean (0) to their minimum (1)."""
    gradient_clip: Positive = 10.0
    """Largest norm of a gradient."""

    metrics = ("critic_loss", "actor_loss", "temperature", "entropy", "critic_value")

    @property
    def optimisers(self) -> tuple[optax.GradientTransformation, ...]:
        """The optimisers of actor, critics and temperature."""
        rates = (self.actor_rate, self.critic_rate, self.temperature_rate)
        return tuple(optax.chain(optax.clip_by_global_norm(self.gradient_clip), optax.adam(rate)) for rate in rates)

    def init(self, spec: ExtendedMdp, key: PRNGKeyArray) -> SacState:
        """Start around the action that is held shortest."""
        actor_key, critic_key = jax.random.split(key)
        actor = init_actor(spec.inputs, spec.shortest, self.hidden, actor_key)
        critics = init_critics(spec.inputs, spec.actions, self.hidden, critic_key)
        log_temperature = jnp.log(jnp.asarray(self.initial_temperature))
        parts = (actor, critics, log_temperature)
        optimisers = [o.init(eqx.filter(part, eqx.is_array)) for o, part in zip(self.optimisers, parts, strict=True)]
        return SacState(Statistics.empty(spec.inputs), actor, critics, critics, log_temperature, tuple(optimisers))

    def update(self, stage: str, state: SacState, inputs: Replay, step: Step) -> Update[SacState]:
        batch_key, noise_key = jax.random.split(step.key)
        batch = inputs.sample(batch_key, self.batch)
        seen = map(state.statistics.normalise, (batch.seen, batch.seen_next))
        normalised = eqx.tree_at(lambda b: (b.seen, b.seen_next), batch, tuple(seen))
        state, metrics = self.gradient_step(state, normalised, step.pace, noise_key)
        odd = ~jnp.isfinite(batch.reward) | ~jnp.all(jnp.isfinite(batch.seen_next), axis=-1)
        return state, metrics, where_first(odd, batch.seen)

    def gradient_step(
        self, state: SacState, decisions: Decisions, pace: Float[Array, ""], key: PRNGKeyArray
    ) -> tuple[SacState, dict[str, Array]]:
        """Take one step, of `pace` times the usual size, on a batch of decisions with normalised inputs."""
        temperature, entropy = jnp.exp(state.log_temperature), self.target_entropy * decisions.action.shape[-1]
        noise, noise_next = jax.random.normal(key, (2, *decisions.action.shape))
        action_next, log_prob_next = state.actor.sample(decisions.seen_next, noise_next)
        values_next = state.targets(decisions.seen_next, action_next)
        target = soft_target(
            decisions.reward, decisions.discount, values_next, log_prob_next, temperature, entropy, self.pessimism
        )

        def of_critics(critics: Critics) -> Array:
            return critic_loss(critics(decisions.seen, decisions.action), target)

        def of_actor(actor: Actor) -> tuple[Array, Array]:
            action, log_prob = actor.sample(decisions.seen, noise)
            return actor_loss(critics(decisions.seen, action), log_prob, temperature, self.pessimism), log_prob

        def stepped(i: int, part: Any, gradient: Any) -> tuple[Any, Any]:
            updates, optimiser = self.optimisers[i].update(gradient, state.optimisers[i])
            return eqx.apply_updates(part, jax.tree.map(lambda leaf: pace * leaf, updates)), optimiser

        loss, gradient = eqx.filter_value_and_grad(of_critics)(state.critics)
        critics, critic_state = stepped(1, state.critics, gradient)
        (policy_loss, log_prob), gradient = eqx.filter_value_and_grad(of_actor, has_aux=True)(state.actor)
        actor, actor_state = stepped(0, state.actor, gradient)
        gradient = jax.grad(temperature_loss)(state.log_temperature, log_prob, entropy)
        log_temperature, temperature_state = stepped(2, state.log_temperature, gradient)
        targets = jax.tree.map(lambda new, old: old + self.target_rate * (new - old), critics, state.targets)
        optimisers = (actor_state, critic_state, temperature_state)
        state = SacState(state.statistics, actor, critics, targets, log_temperature, optimisers)
        measured = (loss, policy_loss, temperature, -jnp.mean(log_prob), jnp.mean(target))
        return state, dict(zip(self.metrics, measured, strict=True))
