"""The eluder dimension DE_1(Psi, Y, epsilon) of a finite class (def:eluder).

Psi is given as a table: psi[model, point] = H^2(p_model(y) || p_truth(y)) at points y = (u, x, t). A point extends a
sequence if the values of some model at all earlier points sum to at most epsilon and its value at this point is above
epsilon.

Two facts make an exact search possible. The sum does not depend on the order, so only the set of points matters. And a
model that was used to extend the sequence exceeds epsilon afterwards, so no sequence is longer than the number of
models or of points.
"""

from functools import cache

import numpy as np
from jaxtyping import Bool, Float

LARGEST_EXACT = 18
"""Largest number of points for which all sets are searched."""

Table = Float[np.ndarray, "models points"]


def eluder_dimension(psi: Table, epsilon: float) -> int:
    """Length of the longest sequence, by an exact search over all sets of points. Only for small classes."""
    table = _distinct_points(_checked(psi, epsilon), epsilon)
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
    psi, random = _checked(psi, epsilon), np.random.default_rng(seed)
    if restarts < 1:
        raise ValueError(f"restarts must be at least 1, not {restarts}")
    return max(_greedy_length(psi, epsilon, random) for _ in range(restarts))


def _greedy_length(psi: Table, epsilon: float, random: np.random.Generator) -> int:
    sums, length = np.zeros(psi.shape[0]), 0
    while np.any(nexts := _extends(psi, sums, epsilon)):
        candidates = np.flatnonzero(nexts)
        left = np.sum(sums[:, None] + psi[:, candidates] <= epsilon, axis=0)
        sums = sums + psi[:, random.choice(candidates[left == left.max()])]
        length += 1
    return length


def _extends(psi: Table, sums: Float[np.ndarray, " models"], epsilon: float) -> Bool[np.ndarray, " points"]:
    """Mask of the points that extend a sequence with these sums. Points of the sequence itself never do."""
    return np.any(psi[sums <= epsilon] > epsilon, axis=0)


def _distinct_points(psi: Table, epsilon: float) -> Float[np.ndarray, "models distinct"]:
    """Drop duplicates and points at which no model exceeds epsilon: they never lengthen a sequence."""
    large = psi[:, np.any(psi > epsilon, axis=0)]
    return np.unique(large, axis=1) if large.size else large


def _checked(psi: Table, epsilon: float) -> Table:
    if not 0 < epsilon < np.inf:
        raise ValueError(f"epsilon must be a positive number, not {epsilon}")
    if psi.ndim != 2 or not np.all(psi >= 0):
        raise ValueError("psi must be a table [models, points] of numbers of at least 0")
    return psi
