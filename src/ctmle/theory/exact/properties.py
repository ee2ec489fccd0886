"""Properties of a class under its truth: sampled returns, smoothness constants, and distances of the models from it."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PRNGKeyArray

from ctmle.theory.exact.classes import FiniteClass, LinearClass, walk
from ctmle.theory.exact.precision import in_double
from ctmle.theory.hellinger import gaussian_hellinger2
from ctmle.theory.variance import Smoothness

SHORT = 1e-6
"""Seconds over which a transition law is differenced to get its drift matrix and diffusion."""


@in_double
def class_returns(
    models: FiniteClass, policy: int, samples: int, step: float, seed: int = 0
) -> Float[np.ndarray, " samples"]:
    """Integrals of the reward under the truth, from exactly sampled states `step` seconds apart."""
    times = jnp.linspace(0.0, models.horizon, math.ceil(models.horizon / step) + 1)
    keys = jax.random.split(jax.random.key(seed), samples)
    return np.asarray(_returns(models, jnp.asarray(policy), times, keys))


@eqx.filter_jit
def _returns(models: FiniteClass, policy: Array, times: Array, keys: Key[Array, " samples"]) -> Array:
    def one(key: PRNGKeyArray) -> Array:
        return jnp.trapezoid(models.rewards(policy, walk(models, policy, times, key)), times)

    return jax.lax.map(one, keys, batch_size=256)


@in_double
def closed_loop_smoothness(models: LinearClass, policy: int) -> Smoothness:
    """Constants of prop:var under the truth. The drift is that of the closed loop, so the policy's constant is 0."""
    law = models.laws[policy, int(models.which[policy, models.truth])].transition(jnp.asarray(SHORT))
    steepest = math.exp(-0.5) / (models.horizon * float(jnp.min(models.reward.width)))
    drift = (np.asarray(law.flow) - np.eye(law.flow.shape[-1])) / SHORT
    diffusion = math.sqrt(float(np.trace(np.asarray(law.covariance))) / SHORT)
    return Smoothness(steepest, float(np.linalg.norm(drift, 2)), 0.0, diffusion, models.horizon)


@in_double
def hellinger_table(
    models: LinearClass, states: Float[np.ndarray, "states size"], gaps: Float[np.ndarray, " gaps"]
) -> Float[np.ndarray, "models points"]:
    """psi[model, point] = H^2(p_model || p_truth) of def:eluder at every point (policy, state, gap).

    Policies vary slowest over the points.
    """
    if np.any(gaps <= 0):
        raise ValueError("gaps must be positive: over a gap of 0 there is no density")
    which, variants = np.asarray(models.which), models.laws.push.shape[1]
    every_gap = jnp.broadcast_to(jnp.asarray(gaps)[:, None], (len(gaps), variants))
    tables = []
    for policy in range(models.policies):
        law = models.laws[policy].transition(every_gap)
        covariance = np.asarray(law.covariance)
        means = np.stack([np.asarray(law.mean(jnp.asarray(state))) for state in states])
        true = which[policy, int(models.truth)]
        per_variant = gaussian_hellinger2(
            means, np.broadcast_to(covariance, (*means.shape, means.shape[-1])),
            np.broadcast_to(means[:, :, true, None], means.shape),
            np.broadcast_to(covariance[:, true, None], (*means.shape, means.shape[-1])),
        )  # fmt: skip
        tables.append(per_variant[..., which[policy]].reshape(-1, models.models).T)
    return np.maximum(np.concatenate(tables, axis=1), 0.0)
