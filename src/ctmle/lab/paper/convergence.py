"""Reward error against the number of episodes: the paper's figure "exp_con" and its claims.

CT-MLE runs for as many episodes as the paper's longest runs, at the gap that the paper found best.
"""

from functools import partial

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from rich.table import Table

from ctmle.lab.experiment import Experiment
from ctmle.lab.paper import PaperRequest, base
from ctmle.lab.paper.base import PaperExperiment, Verdict, below, is_value
from ctmle.lab.report.pictures import COLOURS, draw_curve
from ctmle.lab.report.results import RunResult, by_system, learning_curves, text_table
from ctmle.lab.report.statistics import Estimate, bootstrap, log_log_slope, standard_error

Errors = Float[np.ndarray, "seeds episodes"]
"""Distances of every seed's scores from the optimum after each episode."""

GAP = 0.125
"""The paper's optimal gap on Pendulum at sigma = 2, at which it shows the convergence."""
CLAIMED = -0.5
NOT_CLAIMED = (0.0, -1.0)
"""No decay, and 1/N: exponents that an interval must exclude to support 1/sqrt(N)."""

TICKS = (1, 2, 3, 4, 6, 8, 10, 15, 20, 30, 50, 100)

DEFINITIONS = (
    "The paper does not define its reward error. Here it is the optimum minus the score (mean reward after the"
    " warm-up over the test trajectories). The optimum is the best that is known: the score given as --optimum"
    " (`ctmle oracle` prints one), or the best test score of any of these runs if that is higher. The best of many"
    " noisy tests may lie above what any policy can reach, which makes the decay look slower, or below it if"
    " learning has not come to its end, which makes it look faster. The policy drawn from N episodes is the output"
    " of the paper's algorithm, which its theorem bounds: its error is the mean of those of the first N. The"
    " exponent p is that of the power law N^p, by least squares in logarithms of the mean over seeds. It supports"
    " 1/sqrt(N) if its interval covers -1/2 and neither 0 (no decay) nor -1 (1/N). Intervals resample whole runs."
)


def experiment(optimum: float | None = None) -> PaperExperiment:
    """Return the experiment that measures errors from `optimum`, or from the best test score if that is higher."""
    judge, draw = partial(_verdicts, optimum=optimum), partial(plot_errors, optimum=optimum)
    return PaperExperiment(DEFINITIONS, _runs, partial(_measured, optimum=optimum), judge, draw)


def _runs(request: PaperRequest) -> list[Experiment]:
    found = []
    for environment in base.environments(request, ("pendulum",)):
        gap = {} if request.size == "smoke" else {"gap": GAP}
        run = base.start(request, environment, "ct-mle", base.LONG_EPISODES[environment], **gap)
        found += base.seeded(request, run, paper=10, small=5)
    return found


def errors_of(runs: list[RunResult], optimum: float | None) -> tuple[float, Errors]:
    """Return the best score that is known on one system, and the errors of its runs."""
    scores = learning_curves(runs)
    best = float(scores.max())
    best = best if optimum is None else max(best, optimum)
    return best, best - scores


def running_mean(errors: Errors) -> Errors:
    """Return means over the episodes so far: the errors of a policy drawn from them, which the theory bounds."""
    return np.cumsum(errors, axis=1) / np.arange(1, errors.shape[1] + 1)


def exponent(episodes: Float[np.ndarray, " episodes"], errors: Errors) -> Estimate:
    """Estimate the exponent of N with which the mean over seeds falls. Seeds are resampled with whole curves."""
    return bootstrap([errors], lambda groups: log_log_slope(episodes, groups[0].mean(axis=0)))


def _measured(results: list[RunResult], optimum: float | None) -> Table:
    found, optima = [], []
    for environment, runs in by_system(results).items():
        best, errors = errors_of(runs, optimum)
        optima.append(f"{environment} {best:.4g}")
        drawn = running_mean(errors)
        for i, episode in enumerate(runs[0].episodes):
            means = [str(bootstrap([each[:, i]], lambda g: float(g[0].mean()))) for each in (errors, drawn)]
            found.append((environment, str(episode), str(len(runs)), *means))
    title = f"mean errors over seeds, 95% intervals; optimum: {', '.join(optima)}"
    return text_table(title, ("system", "episode", "seeds", "error", "error of a policy drawn so far"), found)


def _verdicts(results: list[RunResult], optimum: float | None) -> list[Verdict]:
    found = []
    for environment, runs in by_system(results).items():
        best, errors = errors_of(runs, optimum)
        for what, each in (("last policy", errors), ("policy drawn so far", running_mean(errors))):
            power = exponent(np.array(runs[0].episodes, float), each)
            where, said = f"{environment}, {what}", f"exponent {power}; optimum {best:.4g}"
            falls, as_root = below(power, 0.0), is_value(power, CLAIMED, NOT_CLAIMED)
            found.append(Verdict(f"{where}: the error falls with N", said, falls, power.samples))
            found.append(Verdict(f"{where}: it falls as 1/sqrt(N)", said, as_root, power.samples))
    return found


# The figure


def plot_errors(results: list[RunResult], optimum: float | None) -> Figure:
    """Draw a row of two panels for each system: the last policy, and one drawn from all so far."""
    systems = by_system(results)
    size = (11.0, 4.6 * len(systems))
    figure, panels = plt.subplots(len(systems), 2, figsize=size, layout="constrained", squeeze=False, sharey="row")
    for (left, right), (environment, runs) in zip(panels, systems.items(), strict=True):
        best, errors = errors_of(runs, optimum)
        episodes = np.array(runs[0].episodes, float)
        _draw(left, episodes, errors, COLOURS[0])
        _draw(right, episodes, running_mean(errors), COLOURS[1])
        left.set_ylabel(f"reward error: {best:.3g} minus the score")
        lowest = _smallest(errors)
        left.set_ylim(0.4 * lowest, 2.5 * max(lowest, errors.max()))
        left.set_title(f"{environment}: policy of episode N", fontsize="medium")
        right.set_title("policy drawn from the first N episodes", fontsize="medium")
    return figure


def _draw(axes: Axes, n: Float[np.ndarray, " episodes"], errors: Errors, colour: str) -> None:
    floor = 0.1 * _smallest(errors)
    axes.set(xscale="log", yscale="log", xlabel="episodes N")
    for line in errors:
        axes.plot(n, np.maximum(line, floor), color=colour, alpha=0.25, linewidth=0.8)
    spread = standard_error(errors)
    label = f"mean of {len(errors)} seeds" + ("" if spread is None else ", standard error")
    draw_curve(axes, n, errors.mean(axis=0), spread, colour=colour, label=label, floor=floor)
    _draw_power_laws(axes, n, errors)
    ticks = [tick for tick in TICKS if tick <= n[-1]]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small", loc="lower left")


def _draw_power_laws(axes: Axes, n: Float[np.ndarray, " episodes"], errors: Errors) -> None:
    """Draw the power law that fits best, and 1/sqrt(N), both through the middle of the points."""
    power, mean = exponent(n, errors), errors.mean(axis=0)
    if power.value is None:
        return
    across, up = np.log(n[mean > 0]).mean(), np.log(mean[mean > 0]).mean()
    interval = "interval not known" if power.interval is None else f"{power.interval[0]:.2f} to {power.interval[1]:.2f}"
    fit = f"fit $N^{{{power.value:.2f}}}$ ({interval})"
    axes.plot(n, np.exp(up + power.value * (np.log(n) - across)), color="black", linewidth=1.2, label=fit)
    reference = np.exp(up - 0.5 * (np.log(n) - across))
    axes.plot(n, reference, color="black", linestyle=":", linewidth=1.8, label=r"$1/\sqrt{N}$")


def _smallest(errors: Errors) -> float:
    """Return the smallest positive mean error: on a logarithmic axis, errors below a tenth of it are drawn there."""
    mean = errors.mean(axis=0)
    return float(mean[mean > 0].min(initial=1.0))
