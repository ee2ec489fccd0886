"""The eluder dimension DE_1(Psi, Y, epsilon) of a finite class (def:eluder).

Psi is given as a table: psi[model, point] = H^2(p_model(y) || p_truth(y)) at points y = (u, x, t). A point extends a
sequence if some model was small on all points before it (their sum is at most epsilon) and is above epsilon on it.

Two facts make an exact search possible: the sum does not care for the order, so a sequence is as good as its set; and
a model that has vouched for a point is never small again, so no sequence is longer than there are models or points.
"""

from functools import cache

import numpy as np
from jaxtyping import Bool, Float

LARGEST_EXACT = 18
"""Points up to which all sets are searched."""

Table = Float[np.ndarray, "models points"]


def eluder_dimension(psi: Table, epsilon: float) -> int:
    """The length of the longest sequence, by search over all sets of points. For small classes."""
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
    """A lower bound for any size: always the point that leaves most models small, ties at random, best of restarts."""
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
    """Which points some still small model is large on. A point that is in the sequence already never is one."""
    return np.any(psi[sums <= epsilon] > epsilon, axis=0)


def _distinct_points(psi: Table, epsilon: float) -> Float[np.ndarray, "models distinct"]:
    """Points that no model is large on, and copies of points, can never lengthen a sequence."""
    large = psi[:, np.any(psi > epsilon, axis=0)]
    return np.unique(large, axis=1) if large.size else large


def _checked(psi: Table, epsilon: float) -> Table:
    if not 0 < epsilon < np.inf:
        raise ValueError(f"epsilon must be a positive number, not {epsilon}")
    if psi.ndim != 2 or not np.all(psi >= 0):
        raise ValueError("psi must be a table [models, points] of numbers of at least 0")
    return psi
