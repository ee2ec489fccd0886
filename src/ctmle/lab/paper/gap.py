"""Which gap needs the fewest episodes, and how many: the paper's figure "exp" and what it says of it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from ctmle.config import TrainConfig
from ctmle.config.reproduce import ReproduceCommand
from ctmle.lab.paper import plan
from ctmle.lab.paper.figures.gap import plot_gaps
from ctmle.lab.paper.grid import Grid, grids
from ctmle.lab.paper.verdict import Verdict, above
from ctmle.lab.report.statistics import bootstrap, spearman
from ctmle.lab.report.tables import Listing
from ctmle.lab.sweeps import Result

SIGMAS = {"paper": (0.0, 0.4, 0.8, 1.2, 1.6, 2.0), "small": (0.0, 0.8, 2.0), "smoke": (0.0, 2.0)}
GAPS = {
    "paper": tuple(2.0**-i for i in range(8)),
    "small": tuple(2.0**-i for i in range(7)),
    "smoke": (0.5, 0.25),
}
SMALL_EPISODES = 8
"""Instead of the paper's 15 on Pendulum: runs that never succeed are the dear ones."""
LOW_SIGMA = 0.4
"""Up to which the paper speaks of low stochasticity."""


class Gap:
    """CT-MLE at every noise level with every gap, each until it succeeds."""

    definitions = (
        "Episodes to success is the first episode whose test score is at least 0.9; runs stop there. A run that"
        " never succeeds counts with one episode more than it was given (censored), so that means over seeds are"
        " lower bounds where that happens. The optimal gap is the largest one that reaches the smallest mean over"
        " seeds; where no run succeeds at any gap, there is none. Trends are rank correlations (Spearman) of the"
        " noise level with the optimal gap, or with the mean number of episodes at that gap; a quantity that is the"
        " same at all noise levels has the trend 0. Intervals resample the seeds of every cell of the grid."
        " Optimism is off, the limit of the large eta that the paper sets here."
    )

    def runs(self, command: ReproduceCommand) -> list[TrainConfig]:
        usual = ("pendulum",) if command.size == "small" else tuple(plan.EPISODES)
        found = []
        for environment in plan.environments(command, usual):
            long = plan.LONG_EPISODES[environment]
            episodes = min(long, SMALL_EPISODES) if command.size == "small" else long
            start = plan.start(command, environment, "ct-mle", episodes, stop_at_success=True)
            start = replace(start, learner=replace(start.learner, optimism=False))
            for sigma in SIGMAS[command.size]:
                for gap in GAPS[command.size]:
                    at = replace(start, sigma=sigma, gap=gap)
                    found += plan.seeded(command, at, paper=plan.PAPER_SEEDS[environment], small=3)
        return found

    def figure(self, results: list[Result]) -> Figure:
        return plot_gaps(grids(results))

    def measured(self, results: list[Result]) -> Listing:
        columns = ("system", "sigma", "optimal gap (s)", "episodes at that gap", "succeeded at that gap")
        found = []
        for grid in grids(results):
            for i, (sigma, best) in enumerate(zip(grid.sigmas, grid.optima, strict=True)):
                gap, episodes = grid.optimal_gap(sigma), grid.fewest_episodes(sigma)
                share = "-" if best is None else grid.succeeded[i * len(grid.gaps) + best]
                found.append((grid.environment, f"{sigma:g}", str(gap), str(episodes), share))
        return Listing("optimal gaps and mean episodes to success, 95% intervals", columns, found)

    def verdicts(self, results: list[Result]) -> list[Verdict]:
        found = []
        for grid in grids(results):
            found += [_gap_rises(grid), *_not_the_finest(grid), _episodes_rise(grid), _episodes_rise_at_all_gaps(grid)]
        return found


def _trend(x: Sequence[float], y: Float[np.ndarray, " sigmas"]) -> float:
    """0 where y is the same everywhere, which is no rise; NaN where one is not known."""
    if np.isnan(y).any():
        return float("nan")
    return 0.0 if np.ptp(y) == 0 else spearman(np.asarray(x, float), y)


def _gap_rises(grid: Grid) -> Verdict:
    found = bootstrap(grid.cells, lambda cells: _trend(grid.sigmas, grid.best_gaps(cells)), bounds=(-1.0, 1.0))
    gaps = ["none" if best is None else f"{grid.gaps[best]:g}" for best in grid.optima]
    claim = f"{grid.environment}: the optimal gap rises with sigma"
    said = f"rank correlation {found}; gaps {', '.join(gaps)} s"
    return Verdict(claim, said, above(found, 0.0), found.samples)


def _not_the_finest(grid: Grid) -> list[Verdict]:
    found = []
    for sigma in (sigma for sigma in grid.sigmas if sigma <= LOW_SIGMA):
        gap, finest = grid.optimal_gap(sigma), grid.gaps[-1]
        claim = f"{grid.environment}, sigma {sigma:g}: the optimal gap is not the finest"
        said = f"optimal {gap} s; finest {finest:g} s"
        # No gap is below the finest, so that this is borne out or left open, never contradicted.
        found.append(Verdict(claim, said, above(gap, finest), gap.samples))
    return found


def _episodes_rise(grid: Grid) -> Verdict:
    found = bootstrap(grid.cells, lambda cells: _trend(grid.sigmas, grid.means(cells).min(axis=1)), bounds=(-1.0, 1.0))
    episodes = ", ".join(f"{fewest:.3g}" for fewest in grid.means().min(axis=1))
    claim = f"{grid.environment}: episodes to success rise with sigma"
    said = f"at the optimal gap, rank correlation {found}; episodes {episodes}"
    return Verdict(claim, said, above(found, 0.0), found.samples)


def _episodes_rise_at_all_gaps(grid: Grid) -> Verdict:
    found = bootstrap(grid.cells, lambda cells: _trend(grid.sigmas, grid.means(cells).mean(axis=1)), bounds=(-1.0, 1.0))
    episodes = ", ".join(f"{mean:.3g}" for mean in grid.means().mean(axis=1))
    claim = f"{grid.environment}: the same, at the mean over all gaps"
    return Verdict(claim, f"rank correlation {found}; episodes {episodes}", above(found, 0.0), found.samples)
