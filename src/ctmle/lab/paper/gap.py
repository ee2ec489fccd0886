"""The gap that needs the fewest episodes, and how many: the paper's figure "exp" and its claims."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator, NullLocator

from ctmle.lab.experiment import Experiment
from ctmle.lab.paper import base
from ctmle.lab.paper.base import PaperExperiment
from ctmle.lab.paper.episode_grid import EpisodeGrid, grids
from ctmle.lab.paper.request import PaperRequest
from ctmle.lab.paper.verdict import Verdict, above
from ctmle.lab.report.pictures import COLOURS, draw_estimate, legend_once, mark_never
from ctmle.lab.report.run_result import RunResult
from ctmle.lab.report.statistics import Estimate, bootstrap, spearman
from ctmle.lab.report.tables import Listing

SIGMAS = {"paper": (0.0, 0.4, 0.8, 1.2, 1.6, 2.0), "small": (0.0, 0.8, 2.0), "smoke": (0.0, 2.0)}
GAPS = {
    "paper": tuple(2.0**-i for i in range(8)),
    "small": tuple(2.0**-i for i in range(7)),
    "smoke": (0.5, 0.25),
}
SMALL_EPISODES = 8
"""Episodes instead of the paper's 15 on Pendulum: runs that never succeed are the expensive ones."""
LOW_SIGMA = 0.4
"""Largest noise level that the paper calls low stochasticity."""

GAP_COLOUR, EPISODES_COLOUR = COLOURS[:2]


class Gap(PaperExperiment):
    """CT-MLE at every noise level with every gap, each until it succeeds."""

    definitions = (
        "Episodes to success is the first episode whose test score is at least 0.9; runs stop there. A run that"
        " never succeeds counts with one episode more than it was given (censored), so that means over seeds are"
        " lower bounds if that happens. The optimal gap is the largest one that reaches the smallest mean over"
        " seeds; if no run succeeds at any gap, there is none. Trends are rank correlations (Spearman) of the"
        " noise level with the optimal gap, or with the mean number of episodes at that gap; a quantity that is the"
        " same at all noise levels has the trend 0. Intervals resample the seeds of every cell of the grid."
        " Optimism is off, the limit of the large eta that the paper sets here."
    )

    def runs(self, request: PaperRequest) -> list[Experiment]:
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

    def figure(self, results: list[RunResult]) -> Figure:
        return plot_gaps(grids(results))

    def measured(self, results: list[RunResult]) -> Listing:
        columns = ("system", "sigma", "optimal gap (s)", "episodes at that gap", "succeeded at that gap")
        found = []
        for grid in grids(results):
            for i, (sigma, best) in enumerate(zip(grid.sigmas, grid.optima, strict=True)):
                gap, episodes = grid.optimal_gap(sigma), grid.fewest_episodes(sigma)
                share = "-" if best is None else grid.succeeded[i * len(grid.gaps) + best]
                found.append((grid.environment, f"{sigma:g}", str(gap), str(episodes), share))
        return Listing("optimal gaps and mean episodes to success, 95% intervals", columns, found)

    def verdicts(self, results: list[RunResult]) -> list[Verdict]:
        found = []
        for grid in grids(results):
            found += [_gap_rises(grid), *_not_the_finest(grid), _episodes_rise(grid), _episodes_rise_at_all_gaps(grid)]
        return found


def _trend(x: Sequence[float], y: Float[np.ndarray, " sigmas"]) -> float:
    """Rank correlation, with 0 for a constant y; NaN if a value is not known."""
    if np.isnan(y).any():
        return float("nan")
    return 0.0 if np.ptp(y) == 0 else spearman(np.asarray(x, float), y)


def _gap_rises(grid: EpisodeGrid) -> Verdict:
    found = bootstrap(grid.cells, lambda cells: _trend(grid.sigmas, grid.best_gaps(cells)), bounds=(-1.0, 1.0))
    gaps = ["none" if best is None else f"{grid.gaps[best]:g}" for best in grid.optima]
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
    found = bootstrap(grid.cells, lambda cells: _trend(grid.sigmas, grid.means(cells).min(axis=1)), bounds=(-1.0, 1.0))
    episodes = ", ".join(f"{fewest:.3g}" for fewest in grid.means().min(axis=1))
    claim = f"{grid.environment}: episodes to success rise with sigma"
    said = f"at the optimal gap, rank correlation {found}; episodes {episodes}"
    return Verdict(claim, said, above(found, 0.0), found.samples)


def _episodes_rise_at_all_gaps(grid: EpisodeGrid) -> Verdict:
    found = bootstrap(grid.cells, lambda cells: _trend(grid.sigmas, grid.means(cells).mean(axis=1)), bounds=(-1.0, 1.0))
    episodes = ", ".join(f"{mean:.3g}" for mean in grid.means().mean(axis=1))
    claim = f"{grid.environment}: the same, at the mean over all gaps"
    return Verdict(claim, f"rank correlation {found}; episodes {episodes}", above(found, 0.0), found.samples)


# The figure


def plot_gaps(grids: Sequence[EpisodeGrid]) -> Figure:
    """Draw a row of three panels for each system: optimal gaps, episodes at them, and the whole grid."""
    size = (14.0, 4.2 * len(grids))
    figure, panels = plt.subplots(
        len(grids), 3, figsize=size, layout="constrained", squeeze=False, width_ratios=(1, 1, 1.4)
    )
    for (left, middle, right), grid in zip(panels, grids, strict=True):
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
    axes.set(xlabel=r"noise level $\sigma$", ylabel=r"optimal gap $\Delta_\sigma$ in seconds", xticks=grid.sigmas)
    axes.set_title(f"{grid.environment}: largest gap with the fewest episodes", fontsize="medium")
    axes.grid(alpha=0.3)


def _episodes(axes: Axes, grid: EpisodeGrid) -> None:
    found = [grid.fewest_episodes(sigma) for sigma in grid.sigmas]
    _estimates(axes, grid.sigmas, found, EPISODES_COLOUR)
    never = grid.budget + 1
    mark_never(axes, never)
    highest = max((estimate.interval or (0.0, estimate.value or 0.0))[1] for estimate in found)
    axes.set_ylim(0, min(1.12 * never, max(4.0, 1.5 * highest)))
    axes.set(xlabel=r"noise level $\sigma$", ylabel=r"episodes to success at $\Delta_\sigma$", xticks=grid.sigmas)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title(f"mean over seeds, 95% interval ({never}: no success)", fontsize="medium")
    axes.grid(alpha=0.3)


def _estimates(axes: Axes, x: Sequence[float], found: Sequence[Estimate], colour: str) -> None:
    values = [np.nan if estimate.value is None else estimate.value for estimate in found]
    axes.plot(x, values, color=colour, linewidth=1.5)
    for at, estimate in zip(x, found, strict=True):
        draw_estimate(axes, at, estimate, colour)
    legend_once(axes)


def _heat_map(figure: Figure, axes: Axes, grid: EpisodeGrid) -> None:
    means = grid.means().T
    image = axes.imshow(means, cmap="viridis_r", vmin=1, vmax=grid.budget + 1, aspect="auto")
    figure.colorbar(image, ax=axes, label=f"episodes ({grid.budget + 1}: no success)")
    for i, best in enumerate(grid.optima):
        for j in range(len(grid.gaps)):
            _cell(axes, i, j, means[j, i], grid.succeeded[i * len(grid.gaps) + j], grid.budget)
        if best is not None:
            axes.add_patch(
                Rectangle((i - 0.46, best - 0.46), 0.92, 0.92, fill=False, edgecolor=EPISODES_COLOUR, linewidth=2.5)
            )
    axes.set_xticks(range(len(grid.sigmas)), [f"{sigma:g}" for sigma in grid.sigmas])
    axes.set_yticks(range(len(grid.gaps)), [_seconds(gap) for gap in grid.gaps])
    axes.set(xlabel=r"noise level $\sigma$", ylabel=r"gap $\Delta$ in seconds")
    axes.set_title("mean episodes to success (runs with success); framed: optimal", fontsize="medium")


def _cell(axes: Axes, x: int, y: int, mean: float, succeeded: str, budget: int) -> None:
    if np.isnan(mean):
        axes.text(x, y, "failed", ha="center", va="center", fontsize="small")
        return
    done, of = succeeded.split(" of ")
    sign = "" if done == of else r"$\geq$"
    dark = mean > 0.6 * (budget + 1)
    axes.text(
        x,
        y,
        f"{sign}{mean:.2g} ({done}/{of})",
        ha="center",
        va="center",
        fontsize="small",
        color="white" if dark else "black",
    )


def _seconds(gap: float) -> str:
    return f"1/{round(1 / gap)}" if gap < 1 else f"{gap:g}"
