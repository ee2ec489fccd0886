"""Episodes to success by noise level and gap."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ctmle.lab.paper.outcomes import episodes_to_success, grouped, successes
from ctmle.lab.report.statistics import Estimate, Samples, bootstrap
from ctmle.lab.sweeps import Result


@dataclass(frozen=True)
class Grid:
    """Episodes to success on one system, by noise level and gap; each cell has one number per seed."""

    environment: str
    sigmas: tuple[float, ...]
    gaps: tuple[float, ...]
    """From the longest to the shortest."""
    cells: tuple[Samples, ...]
    """By sigma, then by gap."""
    succeeded: tuple[str, ...]
    """How many of each cell's runs did, in words."""
    budget: int
    """Episodes that a run has; one more stands for no success."""

    @staticmethod
    def of(environment: str, results: list[Result]) -> "Grid":
        sigmas = tuple(sorted({result.config.sigma for result in results}))
        gaps = tuple(sorted({result.config.gap for result in results}, reverse=True))
        by = grouped(results, lambda c: (c.sigma, c.gap))
        cells = [by.get((sigma, gap), []) for sigma in sigmas for gap in gaps]
        return Grid(
            environment,
            sigmas,
            gaps,
            tuple(map(episodes_to_success, cells)),
            tuple(map(successes, cells)),
            results[0].config.episodes,
        )

    def means(self, cells: Sequence[Samples] | None = None) -> Float[np.ndarray, "sigmas gaps"]:
        """Mean episodes to success; NaN where no run finished."""
        means = [cell.mean() if len(cell) else np.nan for cell in (self.cells if cells is None else cells)]
        return np.array(means, float).reshape(len(self.sigmas), -1)

    def row(self, sigma: float) -> tuple[Samples, ...]:
        start = self.sigmas.index(sigma) * len(self.gaps)
        return self.cells[start : start + len(self.gaps)]

    def best(self, row: Sequence[Samples]) -> int | None:
        """Which gap is optimal: the largest of those with the fewest episodes.

        None if nobody knows: no run at some gap, or no success at any.
        """
        means = [cell.mean() if len(cell) else np.nan for cell in row]
        return None if np.isnan(means).any() or min(means) > self.budget else int(np.argmin(means))

    @property
    def optima(self) -> list[int | None]:
        """The optimal gap at each sigma, by its place among the gaps."""
        return [self.best(self.row(sigma)) for sigma in self.sigmas]

    def best_gaps(self, cells: Sequence[Samples]) -> Float[np.ndarray, " rows"]:
        """The optimal gap of each row of cells; NaN where there is none."""
        rows = [cells[i : i + len(self.gaps)] for i in range(0, len(cells), len(self.gaps))]
        return np.array([np.nan if (best := self.best(row)) is None else self.gaps[best] for row in rows])

    def optimal_gap(self, sigma: float) -> Estimate:
        """With an interval that ends at powers of two, as the gaps are."""
        tested = (math.log2(self.gaps[-1]), math.log2(self.gaps[0]))
        power = bootstrap(self.row(sigma), lambda cells: float(np.log2(self.best_gaps(cells)[0])), bounds=tested)
        if power.value is None:
            return power
        interval = power.interval and (2.0 ** math.floor(power.interval[0]), 2.0 ** math.ceil(power.interval[1]))
        return Estimate(2.0**power.value, interval, power.samples)

    def fewest_episodes(self, sigma: float) -> Estimate:
        """Mean episodes to success at the gap that these runs show as optimal."""
        row = self.row(sigma)
        best = self.best(row)
        if best is None:
            return Estimate(None)
        return bootstrap([row[best]], lambda groups: float(groups[0].mean()), bounds=(1.0, self.budget + 1.0))


def grids(results: list[Result]) -> list[Grid]:
    return [Grid.of(environment, runs) for environment, runs in grouped(results, lambda c: c.environment).items()]
