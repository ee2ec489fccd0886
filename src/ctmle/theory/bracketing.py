"""Bracketing numbers and eluder bounds of the paper's two quadratic classes (prop:qua, prop:infinite).

Bracketing numbers are returned as logarithms because they overflow quickly.
"""

import math


def log_bracketing_finite(drifts: int, diffusions: int) -> float:
    """log C of a finite class: C = |F||G| for every epsilon."""
    if drifts < 1 or diffusions < 1:
        raise ValueError(f"a class has at least one drift and one diffusion, not {drifts} and {diffusions}")
    return math.log(drifts) + math.log(diffusions)


def log_bracketing_quadratic(dimension: int, bound: float, epsilon: float) -> float:
    """log C of (phi' M mu)^2 with ||M||_F <= sqrt(B), counted on the grid of the proof: (2 ceil(B/zeta) + 1)^(d*d).

    zeta = epsilon / (3 d^2 B). `log_bracketing_quadratic_printed` is the formula that the paper prints.
    """
    _check(dimension, bound, epsilon)
    zeta = epsilon / (3 * dimension**2 * bound)
    return dimension**2 * math.log(2 * math.ceil(bound / zeta) + 1)


def log_bracketing_quadratic_printed(dimension: int, bound: float, epsilon: float) -> float:
    """log C as prop:infinite prints it, (3 d^2 B^3 / epsilon)^(d*d) up to a constant: less than the count if B < 2."""
    _check(dimension, bound, epsilon)
    return max(0.0, dimension**2 * math.log(3 * dimension**2 * bound**3 / epsilon))


def eluder_bound_finite(dimension: int, bound: float, epsilon: float) -> float:
    """Bound of prop:qua on the eluder dimension, up to a constant: d_{1/epsilon} <~ d^2 log(1 + B^2 / epsilon^2)."""
    _check(dimension, bound, epsilon)
    return dimension**2 * math.log1p((bound / epsilon) ** 2)


def eluder_bound_infinite(dimension: int, bound: float, epsilon: float) -> float:
    """Bound that the proof of prop:infinite gives: d_{1/epsilon} <~ d^2 log(1 + d^2 B^3 / epsilon^2).

    The proposition prints B^2 instead of d^2 B^3; that is `eluder_bound_finite`.
    """
    _check(dimension, bound, epsilon)
    return dimension**2 * math.log1p(dimension**2 * bound**3 / epsilon**2)


def _check(dimension: int, bound: float, epsilon: float) -> None:
    if dimension < 1:
        raise ValueError(f"dimension must be at least 1, not {dimension}")
    for name, value in (("bound", bound), ("epsilon", epsilon)):
        if not 0 < value < math.inf:
            raise ValueError(f"{name} must be a positive number, not {value}")
