"""Networks of different widths: the paper's figure "abl-nn" and its claims."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ctmle.lab.experiment import Experiment
from ctmle.lab.paper import base
from ctmle.lab.paper.base import PaperExperiment
from ctmle.lab.paper.outcomes import (
    by_system,
    episodes_to_success,
    final_scores,
    grouped,
    learning_curves,
    mean_episodes,
    mean_final_score,
    successes,
)
from ctmle.lab.paper.request import PaperRequest
from ctmle.lab.paper.verdict import Verdict, below, within
from ctmle.lab.report.pictures import draw_estimate, legend_once, mark_never
from ctmle.lab.report.run_result import RunResult, Settings
from ctmle.lab.report.statistics import Estimate, Samples, bootstrap, slope
from ctmle.lab.report.tables import Listing

WIDTHS = (150, 175, 200, 225, 250)
"""The paper names the ends and says that there are five."""
SMOKE_WIDTHS = (12, 16)
PAPER_WIDTH = 200
"""Width beyond which the paper sees no improvement."""
SCORE_MARGIN = 0.05
"""Our reading of "nearly indistinguishable" scores, which are at most 1."""
EPISODE_MARGIN = 1.0
"""Our reading of "nearly indistinguishable" episodes to success."""

ByWidth = dict[int, list[RunResult]]


class Width(PaperExperiment):
    """CT-MLE with dynamics networks of five widths, all else equal."""

    definitions = (
        "Scores are mean rewards after the warm-up; episodes to success count the first score of at least 0.9, and"
        " one more than a run has if it never succeeds. The effect of the width is the gain of the least-squares line"
        " through all runs from the narrowest to the widest network. The paper gives no number for nearly"
        f" indistinguishable: here it is an interval within +-{SCORE_MARGIN:g} of score, or +-{EPISODE_MARGIN:g}"
        " episode. Intervals resample the seeds of every width."
    )

    def runs(self, request: PaperRequest) -> list[Experiment]:
        found = []
        for environment in base.environments(request, ("pendulum",)):
            start = base.start(request, environment, "ct-mle", base.EPISODES[environment])
            layers = len(start.settings["dynamics_hidden"])
            for units in SMOKE_WIDTHS if request.size == "smoke" else WIDTHS:
                found += base.seeded(request, start.changed({"dynamics_hidden": (units,) * layers}), paper=5, small=3)
        return found

    def figure(self, results: list[RunResult]) -> Figure:
        return plot_widths(results)

    def measured(self, results: list[RunResult]) -> Listing:
        columns = ("system", "width", "seeds", "final score", "episodes to success", "succeeded")
        found = []
        for (environment, units), runs in grouped(results, lambda s: (s["environment"], width(s))).items():
            numbers = (str(mean_final_score(runs)), str(mean_episodes(runs)), successes(runs))
            found.append((environment, str(units), str(len(runs)), *numbers))
        return Listing(
            "final scores (interquartile mean) and episodes to success (mean), 95% intervals", columns, found
        )

    def verdicts(self, results: list[RunResult]) -> list[Verdict]:
        found = []
        for environment, runs in by_system(results).items():
            found += _verdicts(environment, dict(sorted(grouped(runs, width).items())))
        return found


def width(settings: Settings) -> int:
    """Return the units per hidden layer of the dynamics."""
    return settings["dynamics_hidden"][0]


def _verdicts(where: str, by_width: ByWidth) -> list[Verdict]:
    units, groups = list(by_width), list(by_width.values())
    curves, final = list(map(learning_curves, groups)), list(map(final_scores, groups))
    span = f"from {units[0]} to {units[-1]} units"
    along = _effect(units, [curve.mean(axis=1) for curve in curves])
    second = _effect(units, [curve[:, :2][:, -1] for curve in curves])
    early = _effect(units, list(map(episodes_to_success, groups)))
    smallest = bootstrap(final, lambda groups: float(groups[0].mean() - np.mean([g.mean() for g in groups[1:]])))
    found = [
        _alike(f"{where}: learning curves are alike", f"mean score over all episodes, {span}", along, SCORE_MARGIN),
        _alike(f"{where}: returns are alike after two episodes", f"score {span}", second, SCORE_MARGIN),
        _alike(f"{where}: final scores are alike", f"score {span}", _effect(units, final), SCORE_MARGIN),
        _alike(f"{where}: success comes as early", f"episodes to success, {span}", early, EPISODE_MARGIN),
        _alike(
            f"{where}: the smallest network is on par", "final score less that of the others", smallest, SCORE_MARGIN
        ),
    ]
    if PAPER_WIDTH in units and units[-1] > PAPER_WIDTH:
        found.append(_no_gain_beyond(where, units, final))
    return found


def _alike(claim: str, what: str, difference: Estimate, margin: float) -> Verdict:
    return Verdict(claim, f"{what}: {difference}", within(difference, margin), difference.samples)


def _effect(units: Sequence[int], groups: Sequence[Samples]) -> Estimate:
    """Estimate the gain of the line through all runs from the smallest to the largest width."""

    def gain(groups: Sequence[Samples]) -> float:
        x = np.concatenate([np.full(len(group), float(u)) for u, group in zip(units, groups, strict=True)])
        return slope(x, np.concatenate(groups)) * (units[-1] - units[0])

    return bootstrap(groups, gain)


def _no_gain_beyond(where: str, units: Sequence[int], final: Sequence[Samples]) -> Verdict:
    start = units.index(PAPER_WIDTH)
    gain = bootstrap(final[start:], lambda g: float(np.mean([wider.mean() for wider in g[1:]]) - g[0].mean()))
    claim = f"{where}: more than {PAPER_WIDTH} units are no improvement (less than {SCORE_MARGIN:g})"
    said = f"final score of wider networks less that of {PAPER_WIDTH} units: {gain}"
    return Verdict(claim, said, below(gain, SCORE_MARGIN), gain.samples)


# The figure


def plot_widths(results: list[RunResult]) -> Figure:
    """Draw a row of three panels for each system: learning curves, final scores, episodes to success."""
    systems = by_system(results)
    size = (14.0, 4.2 * len(systems))
    figure, panels = plt.subplots(len(systems), 3, figsize=size, layout="constrained", squeeze=False)
    for (left, middle, right), (environment, runs) in zip(panels, systems.items(), strict=True):
        by_width = dict(sorted(grouped(runs, width).items()))
        _curves(left, environment, by_width, runs[0].settings["success"])
        _final(middle, by_width)
        _episodes(right, by_width, runs[0].settings["episodes"] + 1)
    return figure


def _curves(axes: Axes, environment: str, by_width: ByWidth, success: float) -> None:
    for (units, runs), colour in zip(by_width.items(), _colours(len(by_width)), strict=True):
        x, scores = np.array(runs[0].episodes), learning_curves(runs)
        mean = scores.mean(axis=0)
        axes.plot(x, mean, color=colour, marker="o", markersize=4, label=f"{units} units ({len(runs)} seeds)")
        if len(runs) > 1:
            error = scores.std(axis=0, ddof=1) / len(runs) ** 0.5
            axes.fill_between(x, mean - error, mean + error, color=colour, alpha=0.15, linewidth=0)
    axes.axhline(success, color="grey", linestyle="--", linewidth=1, label="success")
    axes.set(xlabel="episode", ylabel="mean reward after the warm-up")
    axes.set_title(f"{environment}: mean and standard error", fontsize="medium")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small", loc="lower right")


def _final(axes: Axes, by_width: ByWidth) -> None:
    groups = list(by_width.values())
    _by_width(axes, by_width, [final_scores(runs) for runs in groups], [mean_final_score(runs) for runs in groups])
    axes.set_ylabel("score after the last episode")
    axes.set_title("interquartile mean, 95% interval, and each seed", fontsize="medium")


def _episodes(axes: Axes, by_width: ByWidth, never: int) -> None:
    groups = list(by_width.values())
    _by_width(axes, by_width, [episodes_to_success(runs) for runs in groups], [mean_episodes(runs) for runs in groups])
    mark_never(axes, never)
    axes.set(ylabel="episodes to success", ylim=(0, 1.15 * never))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title("mean, 95% interval, and each seed", fontsize="medium")


def _by_width(axes: Axes, by_width: ByWidth, each: Sequence[Samples], found: Sequence[Estimate]) -> None:
    for i, (samples, estimate, colour) in enumerate(zip(each, found, _colours(len(by_width)), strict=True)):
        places = i + np.linspace(-0.25, 0.25, len(samples) + 2)[1:-1]
        axes.plot(places, samples, ".", color=colour, alpha=0.5)
        draw_estimate(axes, float(i), estimate, colour)
    axes.set_xticks(range(len(by_width)), [str(units) for units in by_width])
    axes.set_xlabel("units per hidden layer")
    axes.grid(alpha=0.3)
    legend_once(axes)


def _colours(count: int) -> np.ndarray:
    """Return colours of an ordered scale, because widths are ordered."""
    return plt.get_cmap("viridis")(np.linspace(0.0, 0.85, count))
