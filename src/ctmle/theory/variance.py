"""Total variance Var^u (def:var): simulated returns, an estimate from samples, and the bound of prop:var.

`theory.exact` computes Var^u exactly on enumerable classes.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from scipy.special import exprel, ndtri

from ctmle.settings import NonNegative, Part, Positive
from ctmle.theory.limits import AtLeastOne, check

if TYPE_CHECKING:
    from jaxtyping import PRNGKeyArray

    from ctmle.envs.base import Env

LARGEST_EXPONENT = 700.0
"""Exponents are cut here to avoid overflow; the bounds are cut at 1 anyway."""


def simulated_returns(
    env: "Env", policy: Any, key: "PRNGKeyArray", *, trajectories: int = 1000, step: float = 0.02, largest: float = 1.0
) -> Float[np.ndarray, " trajectories"]:
    """Integrals of the reward over [0, T], divided by the largest possible integral T * `largest`, so at most 1.

    Returns of a policy on any environment: samples for `estimate_variance`. Only this function loads JAX.
    """
    import jax
    import jax.numpy as jnp

    from ctmle.plants.simulated import simulate_many
    from ctmle.schedules.base import Looks

    check(AtLeastOne, trajectories=trajectories)
    check(Positive, largest=largest)
    if not 0 < step <= env.horizon:
        raise ValueError(f"step must lie between 0 and the horizon {env.horizon:g} s, not {step}")
    times = jnp.linspace(0.0, env.horizon, math.ceil(env.horizon / step) + 1)
    seen = simulate_many(env, policy, Looks(times), jax.random.split(key, trajectories), step=step)
    rewards = np.asarray(env.spec.reward(seen.states, seen.controls), np.float64)
    integrals = np.trapezoid(rewards, np.asarray(times, np.float64), axis=1)
    return np.asarray(integrals / (env.horizon * largest))


@dataclass(frozen=True)
class VarianceEstimate:
    """A sample variance with a 95% interval."""

    variance: float
    low: float
    high: float
    samples: int


def estimate_variance(returns: Float[np.ndarray, " samples"]) -> VarianceEstimate:
    """Sample variance of independent returns with a 95% interval from the fourth moment.

    The interval is computed for the logarithm of the variance, which is much less skewed than the variance itself.
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
    factor = math.exp(ndtri(0.975) * error)
    return VarianceEstimate(variance, variance / factor, variance * factor, n)


@dataclass(frozen=True)
class Smoothness(Part):
    """Constants of prop:var: Lipschitz constants of reward, drift and policy, a bound on ||g||_F, and T."""

    reward: NonNegative
    drift: Positive
    policy: NonNegative
    diffusion: NonNegative
    horizon: Positive

    @property
    def rate(self) -> float:
        """Growth rate of the spread of the closed loop: 2 L_f (1 + L_u)."""
        return 2 * self.drift * (1 + self.policy)


def variance_bound(constants: Smoothness) -> float:
    """Bound of prop:var with the factor T that its use of Cauchy-Schwarz needs: T times the printed bound."""
    return min(1.0, constants.horizon * _printed(constants))


def variance_bound_printed(constants: Smoothness) -> float:
    """Formula of prop:var as printed. It is not a bound: dx = (.01/T) x dt + .05 dW exceeds it 3.3 times at T = 10."""
    return min(1.0, _printed(constants))


def variance_bound_tight(constants: Smoothness) -> float:
    """T L_b^2 (1 + L_u)^2 times the integral of V(t): the same proof without replacing V(t) by V(T)."""
    c, z = constants, min(constants.rate * constants.horizon, LARGEST_EXPONENT)
    growth = exprel(z) - 1 if z > 1e-3 else z / 2 + z**2 / 6 + z**3 / 24  # the series does not cancel near 0
    integral = c.diffusion**2 * c.horizon * float(growth) / c.rate
    return min(1.0, c.horizon * (c.reward * (1 + c.policy)) ** 2 * integral)


def _printed(c: Smoothness) -> float:
    spread = math.expm1(min(c.rate * c.horizon, LARGEST_EXPONENT))
    return c.diffusion**2 * c.horizon * c.reward**2 * (1 + c.policy) / (2 * c.drift) * spread
