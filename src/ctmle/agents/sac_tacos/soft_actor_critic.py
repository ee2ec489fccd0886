"""Soft actor-critic on the extended MDP as a trainer: critics, actor, temperature, target critics.

The losses are pure functions of numbers. Their equations are those of Haarnoja et al. (2018), "Soft Actor-Critic
Algorithms and Applications", whose steps are of equal length. Here a decision lasts a hold, so its discount is
exp(-beta * hold), and whatever each decision pays or costs by the way pulls holds shorter or longer. Hence two
changes, which would matter little with equal steps:

- Entropy counts in excess of its target, alpha (H - target): the Lagrangian of their constraint H >= target.
- The twins' pessimism is a setting: see `cautious`.
"""

from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from ctmle.agents.sac_tacos.mdp import ExtendedMdp
from ctmle.agents.sac_tacos.memory import Decisions, Replay, Statistics
from ctmle.agents.sac_tacos.networks import action_values, init_actor, init_critics, sample_action
from ctmle.settings import Count, Finite, Positive, Share, Widths
from ctmle.training.mlp import Mlp
from ctmle.training.updates import Step, Trainer, Update, where_first

Scalar = Float[Array, ""]
Batch = Float[Array, " batch"]
Twins = Float[Array, "twins batch"]


def cautious(values: Twins, pessimism: float) -> Batch:
    """Return the twins' mean minus a share of half their difference: 0 is the mean, 1 the minimum of the original.

    With the minimum every decision costs what the twins disagree by, and a policy escapes that by long holds.
    """
    return jnp.mean(values, axis=0) - 0.5 * pessimism * (jnp.max(values, axis=0) - jnp.min(values, axis=0))


def soft_value(values: Twins, log_prob: Batch, temperature: Scalar, target_entropy: float, pessimism: float) -> Batch:
    """Return V(s) at one action (their equation 3): Q(s, a) - alpha (log pi(a|s) + target)."""
    return cautious(values, pessimism) - temperature * (log_prob + target_entropy)


def soft_target(reward: Batch, discount: Batch, value_next: Batch) -> Batch:
    """Return what Q should be (their equation 2): r + d V(s')."""
    return jax.lax.stop_gradient(reward + discount * value_next)


def critic_loss(values: Twins, target: Batch) -> Scalar:
    """Their equation 5, summed over the twins."""
    return 0.5 * jnp.sum(jnp.mean((values - target) ** 2, axis=-1))


def actor_loss(values: Twins, log_prob: Batch, temperature: Scalar, pessimism: float) -> Scalar:
    """Their equation 9: alpha log pi(a|s) - Q(s, a) at reparametrised actions."""
    return jnp.mean(temperature * log_prob - cautious(values, pessimism))


def temperature_loss(log_temperature: Scalar, log_prob: Batch, target_entropy: float) -> Scalar:
    """Their equation 18, in the logarithm of alpha: it rises while the entropy is below its target."""
    return -log_temperature * jax.lax.stop_gradient(jnp.mean(log_prob) + target_entropy)


class SacState(eqx.Module):
    """Networks and temperature with their optimisers; `statistics` normalise the networks' inputs."""

    statistics: Statistics
    actor: Mlp
    critics: Mlp
    targets: Mlp
    log_temperature: Scalar
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
        parts: tuple[Any, ...] = (actor, critics, log_temperature)
        optimisers = [optimiser.init(part) for optimiser, part in zip(self.optimisers, parts, strict=True)]
        return SacState(Statistics.empty(spec.inputs), actor, critics, critics, log_temperature, tuple(optimisers))

    def update(self, stage: str, state: SacState, inputs: Replay, step: Step) -> Update[SacState]:
        batch_key, noise_key = jax.random.split(step.key)
        batch = inputs.sample(batch_key, self.batch)
        normalise = state.statistics.normalise
        normalised = replace(batch, seen=normalise(batch.seen), seen_next=normalise(batch.seen_next))
        state, metrics = self.gradient_step(state, normalised, step.pace, noise_key)
        odd = ~jnp.isfinite(batch.reward) | ~jnp.all(jnp.isfinite(batch.seen_next), axis=-1)
        return state, metrics, where_first(odd, batch.seen)

    def gradient_step(
        self, state: SacState, decisions: Decisions, pace: Scalar, key: PRNGKeyArray
    ) -> tuple[SacState, dict[str, Array]]:
        """Take one step, of `pace` times the usual size, on a batch of decisions with normalised inputs."""
        temperature, entropy = jnp.exp(state.log_temperature), self.target_entropy * decisions.action.shape[-1]
        noise, noise_next = jax.random.normal(key, (2, *decisions.action.shape))
        action_next, log_prob_next = sample_action(state.actor, decisions.seen_next, noise_next)
        values_next = action_values(state.targets, decisions.seen_next, action_next)
        value_next = soft_value(values_next, log_prob_next, temperature, entropy, self.pessimism)
        target = soft_target(decisions.reward, decisions.discount, value_next)

        def of_critics(critics: Mlp) -> Array:
            return critic_loss(action_values(critics, decisions.seen, decisions.action), target)

        def of_actor(actor: Mlp) -> tuple[Array, Array]:
            action, log_prob = sample_action(actor, decisions.seen, noise)
            values = action_values(critics, decisions.seen, action)
            return actor_loss(values, log_prob, temperature, self.pessimism), log_prob

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
