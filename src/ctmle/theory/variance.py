"""Total variance Var^u (def:var): an estimate from samples and the bound of prop:var.

`theory.returns` simulates returns on any environment; `theory.exact` computes Var^u exactly on enumerable classes.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri


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
class Smoothness:
    """Constants of prop:var: Lipschitz constants of reward, drift and policy, a bound on ||g||_F, and T."""

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
    c, growth = constants, _growth(constants.rate * constants.horizon)
    integral = c.diffusion**2 * c.horizon * growth / c.rate
    return min(1.0, c.horizon * (c.reward * (1 + c.policy)) ** 2 * integral)


def _printed(c: Smoothness) -> float:
    spread = _expm1(c.rate * c.horizon)
    return c.diffusion**2 * c.horizon * c.reward**2 * (1 + c.policy) / (2 * c.drift) * spread if c.diffusion else 0.0


def _growth(z: float) -> float:
    """(exp(z) - 1) / z - 1, by its series near 0 to avoid cancellation."""
    return _expm1(z) / z - 1 if z > 1e-3 else z / 2 + z**2 / 6 + z**3 / 24


def _expm1(z: float) -> float:
    """exp(z) - 1, or inf where it overflows; the bounds cut it at 1."""
    return math.expm1(z) if z < 700 else math.inf
