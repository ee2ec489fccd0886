"""Networks of different widths: the paper's figure "abl-nn" and what it says of it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure

from ctmle.config import TrainConfig
from ctmle.config.reproduce import ReproduceCommand
from ctmle.lab.paper import plan
from ctmle.lab.paper.figures.width import plot_widths
from ctmle.lab.paper.outcomes import (
    episodes_to_success,
    final_scores,
    grouped,
    learning_curves,
    mean_episodes,
    mean_final_score,
    successes,
    width,
)
from ctmle.lab.paper.verdict import Verdict, below, within
from ctmle.lab.report.statistics import Estimate, Samples, bootstrap, slope
from ctmle.lab.report.tables import Listing
from ctmle.lab.sweeps import Result

WIDTHS = (150, 175, 200, 225, 250)
"""The paper names the ends and says that there are five."""
SMOKE_WIDTHS = (12, 16)
PAPER_WIDTH = 200
"""Beyond which the paper sees no improvement."""
SCORE_MARGIN = 0.05
"""Our reading of "nearly indistinguishable" scores, of at most 1."""
EPISODE_MARGIN = 1.0
"""... and of episodes to success."""


class Width:
    """CT-MLE with dynamics networks of five widths, all else equal."""

    definitions = (
        "Scores are mean rewards after the warm-up; episodes to success count the first score of at least 0.9, and"
        " one more than a run has where there is none. The effect of the width is what the least-squares line"
        " through all runs gains from the narrowest to the widest network. The paper gives no number for what is"
        f" nearly indistinguishable: here an interval within +-{SCORE_MARGIN:g} of score, or +-{EPISODE_MARGIN:g}"
        " episode. Intervals resample the seeds of every width."
    )

    def runs(self, command: ReproduceCommand) -> list[TrainConfig]:
        found = []
        for environment in plan.environments(command, ("pendulum",)):
            start = plan.start(command, environment, "ct-mle", plan.EPISODES[environment])
            layers = len(start.learner.dynamics_hidden)
            for units in SMOKE_WIDTHS if command.size == "smoke" else WIDTHS:
                config = replace(start, learner=replace(start.learner, dynamics_hidden=(units,) * layers))
                found += plan.seeded(command, config, paper=5, small=3)
        return found

    def figure(self, results: list[Result]) -> Figure:
        return plot_widths(results)

    def measured(self, results: list[Result]) -> Listing:
        columns = ("system", "width", "seeds", "final score", "episodes to success", "succeeded")
        found = []
        for (environment, units), runs in grouped(results, lambda c: (c.environment, width(c))).items():
            numbers = (str(mean_final_score(runs)), str(mean_episodes(runs)), successes(runs))
            found.append((environment, str(units), str(len(runs)), *numbers))
        return Listing(
            "final scores (interquartile mean) and episodes to success (mean), 95% intervals", columns, found
        )

    def verdicts(self, results: list[Result]) -> list[Verdict]:
        found = []
        for environment, runs in grouped(results, lambda c: c.environment).items():
            found += _verdicts(environment, dict(sorted(grouped(runs, width).items())))
        return found


def _verdicts(where: str, by_width: dict[int, list[Result]]) -> list[Verdict]:
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
    """What the line through all runs gains from the smallest to the largest width."""

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
