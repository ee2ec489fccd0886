"""Reward error against the number of episodes: the paper's figure "exp_con" and its claims."""

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from ctmle.lab.experiment import Experiment
from ctmle.lab.paper import base
from ctmle.lab.paper.base import PaperExperiment
from ctmle.lab.paper.outcomes import by_system, learning_curves
from ctmle.lab.paper.request import PaperRequest
from ctmle.lab.paper.verdict import Verdict, below, is_value
from ctmle.lab.report.pictures import COLOURS
from ctmle.lab.report.run_result import RunResult
from ctmle.lab.report.statistics import Estimate, bootstrap, log_log_slope
from ctmle.lab.report.tables import Listing

GAP = 0.125
"""The paper's optimal gap on Pendulum at sigma = 2, at which it shows the convergence."""
CLAIMED = -0.5
NOT_CLAIMED = (0.0, -1.0)
"""No decay, and 1/N: exponents that an interval must exclude to support 1/sqrt(N)."""

TICKS = (1, 2, 3, 4, 6, 8, 10, 15, 20, 30, 50, 100)


@dataclass(frozen=True)
class Errors:
    """Distances of every seed's scores from the optimum after each episode, on one system."""

    environment: str
    optimum: float
    episodes: Float[np.ndarray, " episodes"]
    each: Float[np.ndarray, "seeds episodes"]

    @property
    def so_far(self) -> Float[np.ndarray, "seeds episodes"]:
        """Running means over episodes: the errors of a policy drawn from them, which the theory bounds."""
        return np.cumsum(self.each, axis=1) / np.arange(1, self.each.shape[1] + 1)

    def exponent(self, each: Float[np.ndarray, "seeds episodes"]) -> Estimate:
        """Estimate the exponent of N with which the mean over seeds falls. Seeds are resampled with whole curves."""
        return bootstrap([each], lambda groups: log_log_slope(self.episodes, groups[0].mean(axis=0)))


@dataclass(frozen=True)
class Convergence(PaperExperiment):
    """CT-MLE for as many episodes as the paper's longest runs, at the gap that the paper found best."""

    optimum: float | None = None
    """Score to measure errors from, such as the oracle's; the best test score of the runs if that is higher."""

    definitions = (
        "The paper does not define its reward error. Here it is the optimum minus the score (mean reward after the"
        " warm-up over the test trajectories). The optimum is the best that is known: the score given as --optimum"
        " (`ctmle oracle` prints one), or the best test score of any of these runs if that is higher. The best of many"
        " noisy tests may lie above what any policy can reach, which makes the decay look slower, or below it if"
        " learning has not come to its end, which makes it look faster. The policy drawn from N episodes is the output"
        " of the paper's algorithm, which its theorem bounds: its error is the mean of those of the first N. The"
        " exponent p is that of the power law N^p, by least squares in logarithms of the mean over seeds. It supports"
        " 1/sqrt(N) if its interval covers -1/2 and neither 0 (no decay) nor -1 (1/N). Intervals resample whole runs."
    )

    def runs(self, request: PaperRequest) -> list[Experiment]:
        found = []
        for environment in base.environments(request, ("pendulum",)):
            gap = {} if request.size == "smoke" else {"gap": GAP}
            run = base.start(request, environment, "ct-mle", base.LONG_EPISODES[environment], **gap)
            found += base.seeded(request, run, paper=10, small=5)
        return found

    def errors(self, results: list[RunResult]) -> list[Errors]:
        """Measure the errors on each system."""
        found = []
        for environment, runs in by_system(results).items():
            scores = learning_curves(runs)
            best = float(scores.max())
            optimum = best if self.optimum is None else max(best, self.optimum)
            episodes = np.array(runs[0].episodes, float)
            found.append(Errors(environment, optimum, episodes, optimum - scores))
        return found

    def figure(self, results: list[RunResult]) -> Figure:
        return plot_errors(self.errors(results))

    def measured(self, results: list[RunResult]) -> Listing:
        columns = ("system", "episode", "seeds", "error", "error of a policy drawn so far")
        found = []
        for errors in self.errors(results):
            for i, episode in enumerate(errors.episodes):
                last, drawn = (bootstrap([e[:, i]], lambda g: float(g[0].mean())) for e in (errors.each, errors.so_far))
                found.append((errors.environment, f"{episode:.0f}", str(len(errors.each)), str(last), str(drawn)))
        optima = ", ".join(f"{errors.environment} {errors.optimum:.4g}" for errors in self.errors(results))
        return Listing(f"mean errors over seeds, 95% intervals; optimum: {optima}", columns, found)

    def verdicts(self, results: list[RunResult]) -> list[Verdict]:
        found = []
        for errors in self.errors(results):
            for what, each in (("last policy", errors.each), ("policy drawn so far", errors.so_far)):
                power = errors.exponent(each)
                where, said = f"{errors.environment}, {what}", f"exponent {power}; optimum {errors.optimum:.4g}"
                found += [
                    Verdict(f"{where}: the error falls with N", said, below(power, 0.0), power.samples),
                    Verdict(
                        f"{where}: it falls as 1/sqrt(N)", said, is_value(power, CLAIMED, NOT_CLAIMED), power.samples
                    ),
                ]
        return found


# The figure


def plot_errors(errors: Sequence[Errors]) -> Figure:
    """Draw a row of two panels for each system: the last policy, and one drawn from all so far."""
    size = (11.0, 4.6 * len(errors))
    figure, panels = plt.subplots(len(errors), 2, figsize=size, layout="constrained", squeeze=False, sharey="row")
    for (left, right), found in zip(panels, errors, strict=True):
        _draw(left, found, found.each, COLOURS[0])
        _draw(right, found, found.so_far, COLOURS[1])
        left.set_ylabel(f"reward error: {found.optimum:.3g} minus the score")
        lowest = _smallest(found.each)
        left.set_ylim(0.4 * lowest, 2.5 * max(lowest, found.each.max()))
        left.set_title(f"{found.environment}: policy of episode N", fontsize="medium")
        right.set_title("policy drawn from the first N episodes", fontsize="medium")
    return figure


def _draw(axes: Axes, errors: Errors, each: Float[np.ndarray, "seeds episodes"], colour: str) -> None:
    n, mean, floor = errors.episodes, each.mean(axis=0), 0.1 * _smallest(each)
    axes.set(xscale="log", yscale="log", xlabel="episodes N")
    for line in each:
        axes.plot(n, np.maximum(line, floor), color=colour, alpha=0.25, linewidth=0.8)
    axes.plot(n, np.maximum(mean, floor), color=colour, marker="o", markersize=4, label=f"mean of {len(each)} seeds")
    if len(each) > 1:
        error = each.std(axis=0, ddof=1) / len(each) ** 0.5
        low, high = np.maximum(mean - error, floor), np.maximum(mean + error, floor)
        axes.fill_between(n, low, high, color=colour, alpha=0.2, linewidth=0, label="standard error")
    _lines(axes, errors, each)
    ticks = [tick for tick in TICKS if tick <= n[-1]]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small", loc="lower left")


def _lines(axes: Axes, errors: Errors, each: Float[np.ndarray, "seeds episodes"]) -> None:
    """Draw the power law that fits best, and 1/sqrt(N), both through the middle of the points."""
    power, mean = errors.exponent(each), each.mean(axis=0)
    if power.value is None:
        return
    n, positive = errors.episodes, mean > 0
    across, up = np.log(errors.episodes[positive]).mean(), np.log(mean[positive]).mean()
    interval = "interval not known" if power.interval is None else f"{power.interval[0]:.2f} to {power.interval[1]:.2f}"
    fit = f"fit $N^{{{power.value:.2f}}}$ ({interval})"
    axes.plot(n, np.exp(up + power.value * (np.log(n) - across)), color="black", linewidth=1.2, label=fit)
    reference = np.exp(up - 0.5 * (np.log(n) - across))
    axes.plot(n, reference, color="black", linestyle=":", linewidth=1.8, label=r"$1/\sqrt{N}$")


def _smallest(each: Float[np.ndarray, "seeds episodes"]) -> float:
    """Return the smallest positive mean error: on a logarithmic axis, errors below a tenth of it are drawn there."""
    mean = each.mean(axis=0)
    return float(mean[mean > 0].min(initial=1.0))
