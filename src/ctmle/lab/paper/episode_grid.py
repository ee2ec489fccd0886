"""Episodes to success by noise level and gap, and the gap that is optimal."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ctmle.lab.paper.outcomes import by_system, episodes_to_success, grouped, successes
from ctmle.lab.report.run_result import RunResult
from ctmle.lab.report.statistics import Estimate, Samples, bootstrap


@dataclass(frozen=True)
class EpisodeGrid:
    """Episodes to success on one system, by noise level and gap; each cell has one number per seed."""

    environment: str
    sigmas: tuple[float, ...]
    gaps: tuple[float, ...]
    """Gaps from the longest to the shortest."""
    cells: tuple[Samples, ...]
    """Cells by sigma, then by gap."""
    succeeded: tuple[str, ...]
    """Number of each cell's runs that succeeded, in words."""
    budget: int
    """Episodes of a run; one more stands for no success."""

    @staticmethod
    def of(environment: str, results: list[RunResult]) -> "EpisodeGrid":
        sigmas = tuple(sorted({result.settings["sigma"] for result in results}))
        gaps = tuple(sorted({result.settings["gap"] for result in results}, reverse=True))
        by = grouped(results, lambda s: (s["sigma"], s["gap"]))
        cells = [by.get((sigma, gap), []) for sigma in sigmas for gap in gaps]
        return EpisodeGrid(
            environment,
            sigmas,
            gaps,
            tuple(map(episodes_to_success, cells)),
            tuple(map(successes, cells)),
            results[0].settings["episodes"],
        )

    def means(self, cells: Sequence[Samples] | None = None) -> Float[np.ndarray, "sigmas gaps"]:
        """Return mean episodes to success; NaN for cells without a finished run."""
        means = [cell.mean() if len(cell) else np.nan for cell in (self.cells if cells is None else cells)]
        return np.array(means, float).reshape(len(self.sigmas), -1)

    def row(self, sigma: float) -> tuple[Samples, ...]:
        start = self.sigmas.index(sigma) * len(self.gaps)
        return self.cells[start : start + len(self.gaps)]

    def best(self, row: Sequence[Samples]) -> int | None:
        """Return the place of the optimal gap: the largest of those with the fewest episodes.

        None if it is not known: no run at some gap, or no success at any.
        """
        means = [cell.mean() if len(cell) else np.nan for cell in row]
        return None if np.isnan(means).any() or min(means) > self.budget else int(np.argmin(means))

    @property
    def optima(self) -> list[int | None]:
        """Places of the optimal gap among the gaps, for each sigma."""
        return [self.best(self.row(sigma)) for sigma in self.sigmas]

    def best_gaps(self, cells: Sequence[Samples]) -> Float[np.ndarray, " rows"]:
        """Return the optimal gap of each row of cells; NaN if there is none."""
        rows = [cells[i : i + len(self.gaps)] for i in range(0, len(cells), len(self.gaps))]
        return np.array([np.nan if (best := self.best(row)) is None else self.gaps[best] for row in rows])

    def optimal_gap(self, sigma: float) -> Estimate:
        """Estimate the optimal gap; its interval ends at powers of two, as the gaps are."""
        tested = (math.log2(self.gaps[-1]), math.log2(self.gaps[0]))
        power = bootstrap(self.row(sigma), lambda cells: float(np.log2(self.best_gaps(cells)[0])), bounds=tested)
        if power.value is None:
            return power
        interval = power.interval and (2.0 ** math.floor(power.interval[0]), 2.0 ** math.ceil(power.interval[1]))
        return Estimate(2.0**power.value, interval, power.samples)

    def fewest_episodes(self, sigma: float) -> Estimate:
        """Estimate mean episodes to success at the gap that is optimal in these runs."""
        row = self.row(sigma)
        best = self.best(row)
        if best is None:
            return Estimate(None)
        return bootstrap([row[best]], lambda groups: float(groups[0].mean()), bounds=(1.0, self.budget + 1.0))


def grids(results: list[RunResult]) -> list[EpisodeGrid]:
    """Make a grid for each system."""
    return [EpisodeGrid.of(environment, runs) for environment, runs in by_system(results).items()]
