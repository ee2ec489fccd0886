"""Total variance Var^u (def:var): estimated on any system, and bounded by prop:var.

Exact values for linear classes are in `theory.reward.total_variances`.
"""

import math
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PRNGKeyArray

from ctmle.data.trajectory import simulate_many
from ctmle.envs.base import Env
from ctmle.schedules.base import Looks
from ctmle.theory.classes import FiniteClass, LinearClass, walk
from ctmle.theory.precision import in_double

NORMAL_95 = 1.959964
SHORT = 1e-6
"""Seconds over which a linear law shows its drift matrix and diffusion."""


@dataclass(frozen=True)
class VarianceEstimate:
    """A sample variance with a 95% interval."""

    variance: float
    low: float
    high: float
    samples: int


def estimate_variance(returns: Float[np.ndarray, " samples"]) -> VarianceEstimate:
    """The variance of independent returns, its interval from the fourth moment on the logarithmic scale.

    A variance estimate is skewed to the right; its logarithm is much less so.
    """
    n = returns.shape[0]
    if n < 4:
        raise ValueError(f"a variance with an interval needs at least 4 samples, not {n}")
    returns = np.asarray(returns, np.float64)
    variance = float(np.var(returns, ddof=1))
    if variance == 0:
        return VarianceEstimate(0.0, 0.0, 0.0, n)
    kurtosis = float(np.mean((returns - returns.mean()) ** 4)) / variance**2
    error = math.sqrt(max(kurtosis - (n - 3) / (n - 1), 2 / n) / n)
    factor = math.exp(NORMAL_95 * error)
    return VarianceEstimate(variance, variance / factor, variance * factor, n)


def simulated_returns(
    env: Env, policy: Any, key: PRNGKeyArray, *, trajectories: int = 1000, step: float = 0.02, largest: float = 1.0
) -> Float[np.ndarray, " trajectories"]:
    """Integrals of the reward over [0, T], divided by the largest that they can be (T * `largest`), so at most 1."""
    if trajectories < 1 or not 0 < step <= env.horizon or not largest > 0:
        raise ValueError(
            f"trajectories must be at least 1, step between 0 and the horizon {env.horizon:g} s and largest positive,"
            f" not {trajectories}, {step} and {largest}"
        )
    times = jnp.linspace(0.0, env.horizon, math.ceil(env.horizon / step) + 1)
    seen = simulate_many(env, policy, Looks(times), jax.random.split(key, trajectories), step=step)
    rewards = np.asarray(env.spec.reward(seen.states, seen.controls), np.float64)
    integrals = np.trapezoid(rewards, np.asarray(times, np.float64), axis=1)
    return np.asarray(integrals / (env.horizon * largest))


@in_double
def class_returns(
    models: FiniteClass, policy: int, samples: int, step: float, seed: int = 0
) -> Float[np.ndarray, " samples"]:
    """Integrals of the reward of a class under its truth, from exact states `step` seconds apart."""
    times = jnp.linspace(0.0, models.horizon, math.ceil(models.horizon / step) + 1)
    keys = jax.random.split(jax.random.key(seed), samples)
    return np.asarray(_returns(models, jnp.asarray(policy), times, keys))


@eqx.filter_jit
def _returns(models: FiniteClass, policy: Array, times: Array, keys: Key[Array, " samples"]) -> Array:
    def one(key: PRNGKeyArray) -> Array:
        return jnp.trapezoid(models.rewards(policy, walk(models, policy, times, key)), times)

    return jax.lax.map(one, keys, batch_size=256)


@dataclass(frozen=True)
class Smoothness:
    """The constants of prop:var: Lipschitz constants of reward, drift and policy, a bound on ||g||_F, and T."""

    reward: float
    drift: float
    policy: float
    diffusion: float
    horizon: float

    def __post_init__(self) -> None:
        for name in ("reward", "policy", "diffusion"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be a number of at least 0, not {getattr(self, name)}")
        for name in ("drift", "horizon"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be a positive number, not {getattr(self, name)}")

    @property
    def rate(self) -> float:
        """2 L_f (1 + L_u): how fast the spread of the closed loop can grow."""
        return 2 * self.drift * (1 + self.policy)


@in_double
def closed_loop_smoothness(models: LinearClass, policy: int) -> Smoothness:
    """The constants of a linear class under its truth. The closed loop is the drift, so the policy's constant is 0."""
    law = models.laws[policy, int(models.which[policy, models.truth])].transition(jnp.asarray(SHORT))
    steepest = math.exp(-0.5) / (models.horizon * float(jnp.min(models.reward.width)))
    drift = (np.asarray(law.flow) - np.eye(law.flow.shape[-1])) / SHORT
    diffusion = math.sqrt(float(np.trace(np.asarray(law.covariance))) / SHORT)
    return Smoothness(steepest, float(np.linalg.norm(drift, 2)), 0.0, diffusion, models.horizon)


def variance_bound(constants: Smoothness) -> float:
    """prop:var with the factor T that its use of Cauchy-Schwarz needs: T times the printed bound."""
    return min(1.0, constants.horizon * _printed(constants))


def variance_bound_printed(constants: Smoothness) -> float:
    """prop:var as printed. It is not a bound: dx = (.01/T) x dt + .05 dW exceeds it 3.3 times at T = 10."""
    return min(1.0, _printed(constants))


def variance_bound_tight(constants: Smoothness) -> float:
    """T L_b^2 (1 + L_u)^2 times the integral of V(t): the same proof without replacing V(t) by V(T)."""
    c, growth = constants, _growth(constants.rate * constants.horizon)
    integral = c.diffusion**2 * c.horizon * growth / c.rate
    return min(1.0, c.horizon * (c.reward * (1 + c.policy)) ** 2 * integral)


def _printed(c: Smoothness) -> float:
    spread = _expm1(c.rate * c.horizon)
    return c.diffusion**2 * c.horizon * c.reward**2 * (1 + c.policy) / (2 * c.drift) * spread if c.diffusion else 0.0


def _growth(z: float) -> float:
    """(exp(z) - 1) / z - 1, without cancellation near 0."""
    return _expm1(z) / z - 1 if z > 1e-3 else z / 2 + z**2 / 6 + z**3 / 24


def _expm1(z: float) -> float:
    """Large exponents end in infinity, which `min(1, .)` then cuts."""
    return math.expm1(z) if z < 700 else math.inf
