"""The eluder dimension DE_1(Psi, Y, epsilon) of a finite class (def:eluder) and the distances it is computed from.

Psi is given as a table: psi[model, point] = H^2(p_model(y) || p_truth(y)) at points y = (u, x, t), with the squared
Hellinger distance H^2(p || q) = 1 - integral of sqrt(p q). A point extends a sequence if the values of some model at
all earlier points sum to at most epsilon and its value at this point is above epsilon.

Two facts make an exact search possible. The sum does not depend on the order, so only the set of points matters. And a
model that was used to extend the sequence exceeds epsilon afterwards, so no sequence is longer than the number of
models or of points.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
from jaxtyping import Bool, Float

from ctmle.settings import Positive
from ctmle.theory.limits import AtLeastOne, check

LARGEST_EXACT = 18
"""Largest number of points for which all sets are searched."""

Table = Float[np.ndarray, "models points"]
Nodes = Float[np.ndarray, " nodes"]
Vector = Float[np.ndarray, "*#batch n"]
Matrix = Float[np.ndarray, "*#batch n n"]


def eluder_dimension(psi: Table, epsilon: float) -> int:
    """Length of the longest sequence, by an exact search over all sets of points. Only for small classes."""
    _check_table(psi, epsilon)
    large = psi[:, np.any(psi > epsilon, axis=0)]  # no other point lengthens a sequence, and no duplicate does
    table = np.unique(large, axis=1) if large.size else large
    points = table.shape[1]
    if points > LARGEST_EXACT:
        raise ValueError(
            f"{points} distinct points are too many for the exact search (at most {LARGEST_EXACT}):"
            " take fewer points, or greedy_eluder_dimension for a lower bound"
        )

    @cache
    def longest_from(used: int) -> int:
        members = [y for y in range(points) if used >> y & 1]
        nexts = np.flatnonzero(_extends(table, table[:, members].sum(axis=1), epsilon))
        return max((1 + longest_from(used | 1 << int(y)) for y in nexts), default=0)

    return longest_from(0)


def greedy_eluder_dimension(psi: Table, epsilon: float, restarts: int = 32, seed: int = 0) -> int:
    """Lower bound for tables of any size, the best of several greedy searches.

    Each search adds the point that leaves most models at or below epsilon, with ties broken at random.
    """
    _check_table(psi, epsilon)
    check(AtLeastOne, restarts=restarts)
    random, longest = np.random.default_rng(seed), 0
    for _ in range(restarts):
        sums, length = np.zeros(psi.shape[0]), 0
        while np.any(nexts := _extends(psi, sums, epsilon)):
            candidates = np.flatnonzero(nexts)
            left = np.sum(sums[:, None] + psi[:, candidates] <= epsilon, axis=0)
            sums = sums + psi[:, random.choice(candidates[left == left.max()])]
            length += 1
        longest = max(longest, length)
    return longest


def _extends(psi: Table, sums: Float[np.ndarray, " models"], epsilon: float) -> Bool[np.ndarray, " points"]:
    """Mask of the points that extend a sequence with these sums. Points of the sequence itself never do."""
    return np.any(psi[sums <= epsilon] > epsilon, axis=0)


def _check_table(psi: Table, epsilon: float) -> None:
    check(Positive, epsilon=epsilon)
    if psi.ndim != 2 or not np.all(psi >= 0):
        raise ValueError("psi must be a table [models, points] of numbers of at least 0")


def gaussian_hellinger2(
    mean_p: Vector, covariance_p: Matrix, mean_q: Vector, covariance_q: Matrix
) -> Float[np.ndarray, "*#batch"]:
    """H^2 of two normal laws in closed form; leading axes broadcast.

    The affinity stays a logarithm, so tiny distances are accurate too.
    """
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
    log_p: Callable[[Nodes], Nodes], log_q: Callable[[Nodes], Nodes], low: float, high: float, panels: int = 200
) -> float:
    """H^2 of any two densities on a line by quadrature. [low, high] must contain nearly all the mass of both.

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


def nodes_and_weights(low: float, high: float, panels: int, points: int = 8) -> tuple[Nodes, Nodes]:
    """Nodes and weights of `panels` equal panels with `points` Gauss-Legendre nodes each.

    With 8 nodes, a panel about as long as the integrand's own scale is integrated to about 1e-12.
    """
    node, weight = np.polynomial.legendre.leggauss(points)
    edges = np.linspace(low, high, panels + 1)
    half = np.diff(edges)[:, None] / 2
    middle = (edges[:-1, None] + edges[1:, None]) / 2
    return (middle + half * node).ravel(), (half * weight).ravel()
