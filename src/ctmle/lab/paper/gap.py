"""The gap that needs the fewest episodes, and how many: the paper's figure "exp" and its claims.

CT-MLE runs at every noise level with every gap, each until it succeeds.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import NullLocator
from rich.table import Table

from ctmle.lab.experiment import Experiment
from ctmle.lab.paper import PaperRequest, base
from ctmle.lab.paper.base import PaperExperiment, Verdict, above
from ctmle.lab.report.pictures import COLOURS, describe, draw_estimate, legend_once, mark_never
from ctmle.lab.report.results import RunResult, by_system, episodes_to_success, grouped, successes, text_table
from ctmle.lab.report.statistics import Estimate, Samples, bootstrap, spearman

SIGMAS = {"paper": (0.0, 0.4, 0.8, 1.2, 1.6, 2.0), "small": (0.0, 0.8, 2.0), "smoke": (0.0, 2.0)}
GAPS = {"paper": tuple(2.0**-i for i in range(8)), "small": tuple(2.0**-i for i in range(7)), "smoke": (0.5, 0.25)}
SMALL_EPISODES = 8
"""Episodes instead of the paper's 15 on Pendulum: runs that never succeed are the expensive ones."""
LOW_SIGMA = 0.4
"""Largest noise level that the paper calls low stochasticity."""

GAP_COLOUR, EPISODES_COLOUR = COLOURS[:2]
SIGMA_LABEL = r"noise level $\sigma$"

DEFINITIONS = (
    "Episodes to success is the first episode whose test score is at least 0.9; runs stop there. A run that"
    " never succeeds counts with one episode more than it was given (censored), so that means over seeds are"
    " lower bounds if that happens. The optimal gap is the largest one that reaches the smallest mean over"
    " seeds; if no run succeeds at any gap, there is none. Trends are rank correlations (Spearman) of the"
    " noise level with the optimal gap, or with the mean number of episodes at that gap; a quantity that is the"
    " same at all noise levels has the trend 0. Intervals resample the seeds of every cell of the grid."
    " Optimism is off, the limit of the large eta that the paper sets here."
)


def _runs(request: PaperRequest) -> list[Experiment]:
    usual = ("pendulum",) if request.size == "small" else tuple(base.EPISODES)
    found = []
    for environment in base.environments(request, usual):
        long = base.LONG_EPISODES[environment]
        episodes = min(long, SMALL_EPISODES) if request.size == "small" else long
        start = base.start(request, environment, "ct-mle", episodes, stop_at_success=True, optimism=False)
        for sigma in SIGMAS[request.size]:
            for gap in GAPS[request.size]:
                at = start.changed({"sigma": sigma, "gap": gap})
                found += base.seeded(request, at, paper=base.PAPER_SEEDS[environment], small=3)
    return found


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
        episodes, succeeded = tuple(map(episodes_to_success, cells)), tuple(map(successes, cells))
        return EpisodeGrid(environment, sigmas, gaps, episodes, succeeded, results[0].settings["episodes"])

    def row(self, sigma: float) -> tuple[Samples, ...]:
        start = self.sigmas.index(sigma) * len(self.gaps)
        return self.cells[start : start + len(self.gaps)]

    def means(self, cells: Sequence[Samples]) -> Float[np.ndarray, "rows gaps"]:
        """Return mean episodes to success in rows of cells; NaN for cells without a finished run."""
        means = [cell.mean() if len(cell) else np.nan for cell in cells]
        return np.array(means, float).reshape(-1, len(self.gaps))

    def best(self, cells: Sequence[Samples]) -> list[int | None]:
        """Return the place of the optimal gap in each row: the largest of those with the fewest episodes.

        None if it is not known: no run at some gap, or no success at any.
        """
        rows = self.means(cells)
        return [None if np.isnan(row).any() or row.min() > self.budget else int(row.argmin()) for row in rows]

    def best_gaps(self, cells: Sequence[Samples]) -> Float[np.ndarray, " rows"]:
        """Return the optimal gap of each row; NaN if there is none."""
        return np.array([np.nan if place is None else self.gaps[place] for place in self.best(cells)])

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
        (best,) = self.best(row)
        if best is None:
            return Estimate(None)
        return bootstrap([row[best]], lambda groups: float(groups[0].mean()), bounds=(1.0, self.budget + 1.0))


def grids(results: list[RunResult]) -> list[EpisodeGrid]:
    """Make a grid for each system."""
    return [EpisodeGrid.of(environment, runs) for environment, runs in by_system(results).items()]


def _measured(results: list[RunResult]) -> Table:
    columns = ("system", "sigma", "optimal gap (s)", "episodes at that gap", "succeeded at that gap")
    found = []
    for grid in grids(results):
        for i, (sigma, best) in enumerate(zip(grid.sigmas, grid.best(grid.cells), strict=True)):
            gap, episodes = grid.optimal_gap(sigma), grid.fewest_episodes(sigma)
            share = "-" if best is None else grid.succeeded[i * len(grid.gaps) + best]
            found.append((grid.environment, f"{sigma:g}", str(gap), str(episodes), share))
    return text_table("optimal gaps and mean episodes to success, 95% intervals", columns, found)


# Verdicts


def _verdicts(results: list[RunResult]) -> list[Verdict]:
    found = []
    for grid in grids(results):
        found += [_gap_rises(grid), *_not_the_finest(grid), _episodes_rise(grid), _episodes_rise_at_all_gaps(grid)]
    return found


def _trend(grid: EpisodeGrid, numbers: Callable[[Sequence[Samples]], Float[np.ndarray, " sigmas"]]) -> Estimate:
    """Estimate the rank correlation of sigma with a number that is computed from the cells of each sigma."""

    def correlation(cells: Sequence[Samples]) -> float:
        found = numbers(cells)
        if np.isnan(found).any():
            return float("nan")
        return 0.0 if np.ptp(found) == 0 else spearman(np.asarray(grid.sigmas, float), found)

    return bootstrap(grid.cells, correlation, bounds=(-1.0, 1.0))


def _gap_rises(grid: EpisodeGrid) -> Verdict:
    found = _trend(grid, grid.best_gaps)
    gaps = ["none" if best is None else f"{grid.gaps[best]:g}" for best in grid.best(grid.cells)]
    claim = f"{grid.environment}: the optimal gap rises with sigma"
    said = f"rank correlation {found}; gaps {', '.join(gaps)} s"
    return Verdict(claim, said, above(found, 0.0), found.samples)


def _not_the_finest(grid: EpisodeGrid) -> list[Verdict]:
    found = []
    for sigma in (sigma for sigma in grid.sigmas if sigma <= LOW_SIGMA):
        gap, finest = grid.optimal_gap(sigma), grid.gaps[-1]
        claim = f"{grid.environment}, sigma {sigma:g}: the optimal gap is not the finest"
        said = f"optimal {gap} s; finest {finest:g} s"
        # No gap is below the finest, so this claim is confirmed or not decided, never contradicted.
        found.append(Verdict(claim, said, above(gap, finest), gap.samples))
    return found


def _episodes_rise(grid: EpisodeGrid) -> Verdict:
    found = _trend(grid, lambda cells: grid.means(cells).min(axis=1))
    episodes = ", ".join(f"{fewest:.3g}" for fewest in grid.means(grid.cells).min(axis=1))
    claim = f"{grid.environment}: episodes to success rise with sigma"
    said = f"at the optimal gap, rank correlation {found}; episodes {episodes}"
    return Verdict(claim, said, above(found, 0.0), found.samples)


def _episodes_rise_at_all_gaps(grid: EpisodeGrid) -> Verdict:
    found = _trend(grid, lambda cells: grid.means(cells).mean(axis=1))
    episodes = ", ".join(f"{mean:.3g}" for mean in grid.means(grid.cells).mean(axis=1))
    claim = f"{grid.environment}: the same, at the mean over all gaps"
    return Verdict(claim, f"rank correlation {found}; episodes {episodes}", above(found, 0.0), found.samples)


# The figure


def plot_gaps(results: list[RunResult]) -> Figure:
    """Draw a row of three panels for each system: optimal gaps, episodes at them, and the whole grid."""
    found = grids(results)
    how: dict[str, Any] = {"layout": "constrained", "squeeze": False, "width_ratios": (1, 1, 1.4)}
    figure, panels = plt.subplots(len(found), 3, figsize=(14.0, 4.2 * len(found)), **how)
    for (left, middle, right), grid in zip(panels, found, strict=True):
        _optimal_gaps(left, grid)
        _episodes(middle, grid)
        _heat_map(figure, right, grid)
    return figure


def _optimal_gaps(axes: Axes, grid: EpisodeGrid) -> None:
    found = [grid.optimal_gap(sigma) for sigma in grid.sigmas]
    _estimates(axes, grid.sigmas, found, GAP_COLOUR)
    axes.set_yscale("log", base=2)
    axes.set_ylim(grid.gaps[-1] / 1.5, grid.gaps[0] * 1.5)
    axes.set_yticks(grid.gaps, [_seconds(gap) for gap in grid.gaps])
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xticks(grid.sigmas)
    title = f"{grid.environment}: largest gap with the fewest episodes"
    describe(axes, title, SIGMA_LABEL, r"optimal gap $\Delta_\sigma$ in seconds")


def _episodes(axes: Axes, grid: EpisodeGrid) -> None:
    found = [grid.fewest_episodes(sigma) for sigma in grid.sigmas]
    _estimates(axes, grid.sigmas, found, EPISODES_COLOUR)
    never = grid.budget + 1
    mark_never(axes, never)
    highest = max((estimate.interval or (0.0, estimate.value or 0.0))[1] for estimate in found)
    axes.set_ylim(0, min(1.12 * never, max(4.0, 1.5 * highest)))
    axes.set_xticks(grid.sigmas)
    title = f"mean over seeds, 95% interval ({never}: no success)"
    describe(axes, title, SIGMA_LABEL, r"episodes to success at $\Delta_\sigma$", whole="y")


def _estimates(axes: Axes, x: Sequence[float], found: Sequence[Estimate], colour: str) -> None:
    values = [np.nan if estimate.value is None else estimate.value for estimate in found]
    axes.plot(x, values, color=colour, linewidth=1.5)
    for at, estimate in zip(x, found, strict=True):
        draw_estimate(axes, at, estimate, colour)
    legend_once(axes)


def _heat_map(figure: Figure, axes: Axes, grid: EpisodeGrid) -> None:
    means = grid.means(grid.cells).T
    image = axes.imshow(means, cmap="viridis_r", vmin=1, vmax=grid.budget + 1, aspect="auto")
    figure.colorbar(image, ax=axes, label=f"episodes ({grid.budget + 1}: no success)")
    for i, best in enumerate(grid.best(grid.cells)):
        for j in range(len(grid.gaps)):
            _cell(axes, i, j, means[j, i], grid.succeeded[i * len(grid.gaps) + j], grid.budget)
        if best is not None:
            frame = {"fill": False, "edgecolor": EPISODES_COLOUR, "linewidth": 2.5}
            axes.add_patch(Rectangle((i - 0.46, best - 0.46), 0.92, 0.92, **frame))
    axes.set_xticks(range(len(grid.sigmas)), [f"{sigma:g}" for sigma in grid.sigmas])
    axes.set_yticks(range(len(grid.gaps)), [_seconds(gap) for gap in grid.gaps])
    axes.set(xlabel=SIGMA_LABEL, ylabel=r"gap $\Delta$ in seconds")
    axes.set_title("mean episodes to success (runs with success); framed: optimal", fontsize="medium")


def _cell(axes: Axes, x: int, y: int, mean: float, succeeded: str, budget: int) -> None:
    done, of = succeeded.split(" of ")
    sign = "" if done == of else r"$\geq$"
    said = "failed" if np.isnan(mean) else f"{sign}{mean:.2g} ({done}/{of})"
    colour = "white" if mean > 0.6 * (budget + 1) else "black"
    axes.text(x, y, said, ha="center", va="center", fontsize="small", color=colour)


def _seconds(gap: float) -> str:
    return f"1/{round(1 / gap)}" if gap < 1 else f"{gap:g}"


EXPERIMENT = PaperExperiment(DEFINITIONS, _runs, _measured, _verdicts, plot_gaps)
