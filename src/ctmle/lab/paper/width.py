"""CT-MLE with dynamics networks of five widths, all else equal: the paper's figure "abl-nn" and its claims."""

from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ctmle.lab.experiment import Experiment
from ctmle.lab.paper import PaperRequest, base
from ctmle.lab.paper.base import PaperExperiment, Verdict, below, mean_episodes, mean_final_score, within
from ctmle.lab.report.pictures import describe, draw_curve, draw_estimate, legend_once, mark_never
from ctmle.lab.report.results import (
    RunResult,
    Settings,
    by_system,
    episodes_to_success,
    final_scores,
    grouped,
    learning_curves,
)
from ctmle.lab.report.statistics import Estimate, Samples, bootstrap, slope, standard_error

WIDTHS = (150, 175, 200, 225, 250)
"""The paper names the ends and says that there are five."""
SMOKE_WIDTHS = (12, 16)
PAPER_WIDTH = 200
"""Width beyond which the paper sees no improvement."""
SCORE_MARGIN = 0.05
"""Our reading of "nearly indistinguishable" scores, which are at most 1."""
EPISODE_MARGIN = 1.0
"""Our reading of "nearly indistinguishable" episodes to success."""

Runs = list[RunResult]
ByWidth = dict[int, Runs]

DEFINITIONS = (
    "Scores are mean rewards after the warm-up; episodes to success count the first score of at least 0.9, and"
    " one more than a run has if it never succeeds. The effect of the width is the gain of the least-squares line"
    " through all runs from the narrowest to the widest network. The paper gives no number for nearly"
    f" indistinguishable: here it is an interval within +-{SCORE_MARGIN:g} of score, or +-{EPISODE_MARGIN:g}"
    " episode. Intervals resample the seeds of every width."
)


def _runs(request: PaperRequest) -> list[Experiment]:
    found = []
    for environment in base.environments(request, ("pendulum",)):
        start = base.start(request, environment, "ct-mle", base.EPISODES[environment])
        layers = len(start.settings["dynamics_hidden"])
        for units in SMOKE_WIDTHS if request.size == "smoke" else WIDTHS:
            found += base.seeded(request, start.changed({"dynamics_hidden": (units,) * layers}), paper=5, small=3)
    return found


def _verdicts(results: Runs) -> list[Verdict]:
    return [verdict for where, runs in by_system(results).items() for verdict in _verdicts_on(where, by_width(runs))]


def width(settings: Settings) -> int:
    """Return the units per hidden layer of the dynamics."""
    return settings["dynamics_hidden"][0]


def by_width(runs: Runs) -> ByWidth:
    """Group runs by width, from the narrowest to the widest."""
    return dict(sorted(grouped(runs, width).items()))


def _verdicts_on(where: str, groups_of: ByWidth) -> list[Verdict]:
    units, groups = list(groups_of), list(groups_of.values())
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


def plot_widths(results: Runs) -> Figure:
    """Draw a row of three panels for each system: learning curves, final scores, episodes to success."""
    systems = by_system(results)
    size = (14.0, 4.2 * len(systems))
    figure, panels = plt.subplots(len(systems), 3, figsize=size, layout="constrained", squeeze=False)
    for (left, middle, right), (environment, runs) in zip(panels, systems.items(), strict=True):
        groups = by_width(runs)
        _draw_curves(left, groups, runs[0].settings["success"])
        describe(left, f"{environment}: mean and standard error", "episode", "mean reward after the warm-up", whole="x")
        _draw_numbers(middle, groups, final_scores, mean_final_score)
        title = "interquartile mean, 95% interval, and each seed"
        describe(middle, title, "units per hidden layer", "score after the last episode")
        _draw_numbers(right, groups, episodes_to_success, mean_episodes)
        title, never = "mean, 95% interval, and each seed", runs[0].settings["episodes"] + 1
        describe(right, title, "units per hidden layer", "episodes to success", whole="y")
        mark_never(right, never)
        right.set_ylim(0, 1.15 * never)
    return figure


def _draw_curves(axes: Axes, groups: ByWidth, success: float) -> None:
    for (units, runs), colour in zip(groups.items(), _colours(len(groups)), strict=True):
        x, scores = np.array(runs[0].episodes, float), learning_curves(runs)
        label = f"{units} units ({len(runs)} seeds)"
        draw_curve(axes, x, scores.mean(axis=0), standard_error(scores), colour=colour, label=label)
    axes.axhline(success, color="grey", linestyle="--", linewidth=1, label="success")
    axes.legend(fontsize="small", loc="lower right")


def _draw_numbers(
    axes: Axes, groups: ByWidth, each: Callable[[Runs], Samples], mean: Callable[[Runs], Estimate]
) -> None:
    """Draw the number of each run, and the mean of each width."""
    for i, (runs, colour) in enumerate(zip(groups.values(), _colours(len(groups)), strict=True)):
        places = i + np.linspace(-0.25, 0.25, len(runs) + 2)[1:-1]
        axes.plot(places, each(runs), ".", color=colour, alpha=0.5)
        draw_estimate(axes, float(i), mean(runs), colour)
    axes.set_xticks(range(len(groups)), [str(units) for units in groups])
    legend_once(axes)


def _colours(count: int) -> np.ndarray:
    """Return colours of an ordered scale, because widths are ordered."""
    return plt.get_cmap("viridis")(np.linspace(0.0, 0.85, count))


EXPERIMENT = PaperExperiment(
    DEFINITIONS,
    _runs,
    measured=lambda results: base.score_table(results, "width", width),
    verdicts=_verdicts,
    figure=plot_widths,
)
