"""The losses of soft actor-critic on the extended MDP, as pure functions of numbers.

Equations are those of Haarnoja et al. (2018), "Soft Actor-Critic Algorithms and Applications", whose steps are of
equal length. Here a decision lasts a hold, so its discount is exp(-beta * hold), and whatever each decision pays or
costs by the way pulls holds shorter or longer. Hence two changes, which would matter little with equal steps:

- Entropy counts in excess of its target, alpha (H - target): the Lagrangian of their constraint H >= target.
- The twins' pessimism is a setting: see `cautious`.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def cautious(values: Float[Array, "twins batch"], pessimism: float) -> Float[Array, " batch"]:
    """The twins' mean minus a share of half their difference: 0 is the mean, 1 the minimum of the original.

    With the minimum every decision costs what the twins disagree by, and a policy escapes that by long holds.
    """
    return jnp.mean(values, axis=0) - 0.5 * pessimism * (jnp.max(values, axis=0) - jnp.min(values, axis=0))


def soft_target(
    reward: Float[Array, " batch"],
    discount: Float[Array, " batch"],
    values_next: Float[Array, "twins batch"],
    log_prob_next: Float[Array, " batch"],
    temperature: Float[Array, ""],
    target_entropy: float,
    pessimism: float,
) -> Float[Array, " batch"]:
    """What Q should be (their equations 2 and 3): r + d (Q'(s', a') - alpha (log pi(a'|s') + target))."""
    value = cautious(values_next, pessimism) - temperature * (log_prob_next + target_entropy)
    return jax.lax.stop_gradient(reward + discount * value)


def critic_loss(values: Float[Array, "twins batch"], target: Float[Array, " batch"]) -> Float[Array, ""]:
    """Their equation 5, summed over the twins."""
    return 0.5 * jnp.sum(jnp.mean((values - target) ** 2, axis=-1))


def actor_loss(
    values: Float[Array, "twins batch"],
    log_prob: Float[Array, " batch"],
    temperature: Float[Array, ""],
    pessimism: float,
) -> Float[Array, ""]:
    """Their equation 9: alpha log pi(a|s) - Q(s, a) at reparametrised actions."""
    return jnp.mean(temperature * log_prob - cautious(values, pessimism))


def temperature_loss(
    log_temperature: Float[Array, ""], log_prob: Float[Array, " batch"], target_entropy: float
) -> Float[Array, ""]:
    """Their equation 18, in the logarithm of alpha: it rises while the entropy is below its target."""
    return -log_temperature * jax.lax.stop_gradient(jnp.mean(log_prob) + target_entropy)
