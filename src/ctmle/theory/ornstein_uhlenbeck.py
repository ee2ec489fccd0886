"""The spectral expansion of the Ornstein-Uhlenbeck process  dy = -rate y dt + noise dW  and its truncation error.

    p(y | t, y0) = sqrt(p_s(y) / p_s(y0)) * sum_n exp(-n rate t) psi_n(y) psi_n(y0)

with the orthonormal Hermite functions psi_n and the stationary density p_s. The paper prints the sum without the factor
in front; that sum is the kernel of the symmetrised generator, not a density.
"""

import math

import numpy as np
from jaxtyping import Float

from ctmle.settings import Positive
from ctmle.theory.limits import AtLeastOne, check

Points = Float[np.ndarray, " points"]


def transition_density(y: Points, y0: float, t: float, rate: float = 1.0, noise: float = 1.0) -> Points:
    """Exact normal density, the limit of the expansion."""
    check(Positive, t=t, rate=rate, noise=noise)
    variance = noise**2 * -math.expm1(-2 * rate * t) / (2 * rate)
    return np.exp(-((y - y0 * math.exp(-rate * t)) ** 2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)


def expansion(y: Points, y0: float, t: float, terms: int, rate: float = 1.0, noise: float = 1.0) -> Points:
    """Sum of the first `terms` terms of the expansion of the transition density."""
    scale = noise / math.sqrt(2 * rate)
    factor = np.exp((y0**2 - y**2) / (4 * scale**2))
    return factor * expansion_printed(y, y0, t, terms, rate, noise)


def expansion_printed(y: Points, y0: float, t: float, terms: int, rate: float = 1.0, noise: float = 1.0) -> Points:
    """Sum as the paper prints it, without sqrt(p_s(y) / p_s(y0))."""
    check(Positive, t=t, rate=rate, noise=noise)
    check(AtLeastOne, terms=terms)
    functions = hermite_functions(np.append(y, y0), terms, noise / math.sqrt(2 * rate))
    decay = np.exp(-rate * t * np.arange(terms))
    return (decay * functions[:, -1]) @ functions[:, :-1]


def truncation_bound(y0: float, t: float, terms: int, rate: float = 1.0, noise: float = 1.0) -> float:
    """Bound on |p - expansion| at any y, because Hermite functions of y / (sqrt2 scale) are at most pi^(-1/4)."""
    check(Positive, t=t, rate=rate, noise=noise)
    scale = noise / math.sqrt(2 * rate)
    tail = math.exp(-rate * t * terms) / -math.expm1(-rate * t)
    return math.exp(y0**2 / (4 * scale**2)) * tail / (math.sqrt(2 * math.pi) * scale)


def hermite_functions(y: Points, count: int, scale: float) -> Float[np.ndarray, "count points"]:
    """Orthonormal psi_0, ..., psi_{count-1}; psi_0^2 is the normal density with standard deviation `scale`.

    The recurrence is stable for any count, unlike polynomials divided by factorials.
    """
    z = y / scale
    rows = [np.exp(-(z**2) / 4) / math.sqrt(math.sqrt(2 * math.pi) * scale)]
    for n in range(1, count):
        before = rows[n - 2] if n > 1 else np.zeros_like(z)
        rows.append((z * rows[n - 1] - math.sqrt(n - 1) * before) / math.sqrt(n))
    return np.stack(rows[:count])
