"""Total variance Var^u (def:var): estimated on any system, and bounded by prop:var.

Exact values for linear classes are in `theory.reward.total_variances`.
"""

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from ctmle.data.trajectory import simulate_many
from ctmle.envs.base import Env
from ctmle.schedules.base import Looks

NORMAL_95 = 1.959964


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
    return np.trapezoid(rewards, np.asarray(times, np.float64), axis=1) / (env.horizon * largest)


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
