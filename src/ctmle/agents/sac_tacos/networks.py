"""Actor and critics over normalised inputs. An action is a control and a hold, each scaled to [-1, 1]."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ctmle.training.mlp import Mlp

LOG_SPREAD = (-5.0, 2.0)
"""Bounds of the actor's log standard deviation before the tanh."""

Inputs = Float[Array, "*batch inputs"]
Actions = Float[Array, "*batch action"]


def init_actor(inputs: int, first: Float[Array, " action"], hidden: Sequence[int], key: PRNGKeyArray) -> Mlp:
    """Return an actor that starts around the action `first` whatever it sees, and unsure."""
    net = Mlp((inputs, *hidden, 2 * first.shape[0]), jax.nn.relu, key)
    bias = jnp.concatenate([jnp.arctanh(jnp.clip(first, -0.8, 0.8)), jnp.zeros_like(first)])
    return eqx.tree_at(lambda n: (n.weights[-1], n.biases[-1]), net, (0.1 * net.weights[-1], bias))


def sample_action(actor: Mlp, seen: Inputs, noise: Actions) -> tuple[Actions, Float[Array, "*batch"]]:
    """Draw an action in (-1, 1) from standard normal noise (reparametrised), with its log-density.

    The distribution is a normal through a tanh; without noise the action is its mode.
    """
    mean, raw_spread = jnp.split(actor(seen), 2, axis=-1)
    low, high = LOG_SPREAD
    log_spread = low + 0.5 * (high - low) * (1 + jnp.tanh(raw_spread))
    raw = mean + jnp.exp(log_spread) * noise
    return jnp.tanh(raw), squashed_log_prob(raw, noise, log_spread)


def squashed_log_prob(raw: Actions, noise: Actions, log_spread: Actions) -> Float[Array, "*batch"]:
    """Return the log-density of tanh(raw), raw = mean + spread * noise (Haarnoja et al. 2018, appendix C).

    log(1 - tanh(x)^2) is written as 2 (log 2 - x - softplus(-2x)), which does not underflow.
    """
    normal = -0.5 * noise**2 - log_spread - 0.5 * np.log(2 * np.pi)
    return jnp.sum(normal - 2 * (np.log(2) - raw - jax.nn.softplus(-2 * raw)), axis=-1)


def init_critics(inputs: int, action: int, hidden: Sequence[int], key: PRNGKeyArray) -> Mlp:
    """Return twin critics, stacked."""
    sizes = (inputs + action, *hidden, 1)
    return eqx.filter_vmap(lambda k: Mlp(sizes, standardised_relu, k))(jax.random.split(key, 2))


def action_values(critics: Mlp, seen: Inputs, action: Actions) -> Float[Array, "twins *batch"]:
    """Return Q(seen, action) of both critics."""
    inputs = jnp.concatenate([seen, action], axis=-1)
    return eqx.filter_vmap(lambda net: net(inputs)[..., 0])(critics)


def standardised_relu(x: Float[Array, "*batch width"]) -> Float[Array, "*batch width"]:
    """Layer normalisation without parameters, then ReLU: keeps critics sane under many updates per decision."""
    centred = x - jnp.mean(x, axis=-1, keepdims=True)
    return jax.nn.relu(centred * jax.lax.rsqrt(jnp.mean(centred**2, axis=-1, keepdims=True) + 1e-5))
