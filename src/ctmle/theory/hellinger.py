"""Squared Hellinger distance  H^2(p || q) = 1 - integral of sqrt(p q)  between transition laws."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from ctmle.theory.quadrature import nodes_and_weights

Vector = Float[np.ndarray, "*batch n"]
Matrix = Float[np.ndarray, "*batch n n"]


def gaussian_hellinger2(
    mean_p: Vector, covariance_p: Matrix, mean_q: Vector, covariance_q: Matrix
) -> Float[np.ndarray, "*batch"]:
    """Closed form for two normal laws. The affinity stays a logarithm, so tiny distances are accurate too."""
    middle = (covariance_p + covariance_q) / 2
    sign_p, log_p = np.linalg.slogdet(covariance_p)
    sign_q, log_q = np.linalg.slogdet(covariance_q)
    if np.any(sign_p <= 0) or np.any(sign_q <= 0):
        raise ValueError("both covariances must be positive definite: a law without noise has no density")
    difference = mean_p - mean_q
    distance = np.sum(difference * np.linalg.solve(middle, difference[..., None])[..., 0], -1)
    log_affinity = (log_p + log_q) / 4 - np.linalg.slogdet(middle)[1] / 2 - distance / 8
    return np.asarray(-np.expm1(log_affinity))


def hellinger2(
    log_p: Callable[[Float[np.ndarray, " nodes"]], Float[np.ndarray, " nodes"]],
    log_q: Callable[[Float[np.ndarray, " nodes"]], Float[np.ndarray, " nodes"]],
    low: float,
    high: float,
    panels: int = 200,
) -> float:
    """Quadrature for any two densities on a line. [low, high] must contain all but a negligible part of both.

    It integrates (sqrt p - sqrt q)^2 / 2, which does not cancel where the laws are close.
    """
    if not low < high:
        raise ValueError(f"low must be below high, not {low} and {high}")
    nodes, weights = nodes_and_weights(low, high, panels)
    roots = np.exp(log_p(nodes) / 2), np.exp(log_q(nodes) / 2)
    for name, root in zip(("p", "q"), roots, strict=True):
        mass = float(weights @ root**2)
        if abs(mass - 1) > 1e-3:
            raise ValueError(f"{name} has mass {mass:.4g} on [{low:g}, {high:g}]: widen the interval or add panels")
    return float(weights @ (roots[0] - roots[1]) ** 2) / 2
