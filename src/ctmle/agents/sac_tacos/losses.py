"""The losses of soft actor-critic on the extended MDP, as pure functions of numbers.

Equations are those of Haarnoja et al. (2018), "Soft Actor-Critic Algorithms and Applications". Theirs count steps of equal
length; here a decision lasts a hold, so its discount is exp(-beta * hold), and entropy is counted in excess of its target,
alpha (H - target): the Lagrangian of their constraint H >= target. With equal steps the target is a constant that changes
nothing. With holds it matters, because every look would pay, or cost, alpha * target.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def soft_target(
    reward: Float[Array, " batch"],
    discount: Float[Array, " batch"],
    values_next: Float[Array, "twins batch"],
    log_prob_next: Float[Array, " batch"],
    temperature: Float[Array, ""],
    target_entropy: float,
) -> Float[Array, " batch"]:
    """What Q should be (their equations 2 and 3): r + d (min Q'(s', a') - alpha (log pi(a'|s') + target))."""
    value = jnp.min(values_next, axis=0) - temperature * (log_prob_next + target_entropy)
    return jax.lax.stop_gradient(reward + discount * value)


def critic_loss(values: Float[Array, "twins batch"], target: Float[Array, " batch"]) -> Float[Array, ""]:
    """Their equation 5, summed over the twins."""
    return 0.5 * jnp.sum(jnp.mean((values - target) ** 2, axis=-1))


def actor_loss(
    values: Float[Array, "twins batch"], log_prob: Float[Array, " batch"], temperature: Float[Array, ""]
) -> Float[Array, ""]:
    """Their equation 9: alpha log pi(a|s) - min Q(s, a) at reparametrised actions."""
    return jnp.mean(temperature * log_prob - jnp.min(values, axis=0))


def temperature_loss(
    log_temperature: Float[Array, ""], log_prob: Float[Array, " batch"], target_entropy: float
) -> Float[Array, ""]:
    """Their equation 18, in the logarithm of alpha: it rises while the entropy is below its target."""
    return -log_temperature * jax.lax.stop_gradient(jnp.mean(log_prob) + target_entropy)


def discount_rate(gamma: float, tick: float) -> float:
    """beta such that exp(-beta * tick) = gamma."""
    return -math.log(gamma) / tick
