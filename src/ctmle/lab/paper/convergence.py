"""How the reward error falls with the number of episodes: the paper's figure "exp_con" and what it says of it."""

from dataclasses import dataclass, replace

import numpy as np
from matplotlib.figure import Figure

from ctmle.config import TrainConfig
from ctmle.config.reproduce import ReproduceCommand
from ctmle.lab.paper import plan
from ctmle.lab.paper.errors import Errors
from ctmle.lab.paper.figures.convergence import plot_errors
from ctmle.lab.paper.outcomes import grouped, learning_curves
from ctmle.lab.paper.verdict import Verdict, below, is_value
from ctmle.lab.report.statistics import bootstrap
from ctmle.lab.report.tables import Listing
from ctmle.lab.sweeps import Result

GAP = 0.125
"""The paper's optimal gap on Pendulum at sigma = 2, of which it shows the convergence."""
CLAIMED = -0.5
NOT_CLAIMED = (0.0, -1.0)
"""No decay, and 1/N: what an interval must exclude to speak for 1/sqrt(N)."""


@dataclass(frozen=True)
class Convergence:
    """CT-MLE for as many episodes as the paper's longest runs, at the gap that the paper found best."""

    optimum: float | None = None
    """A score to measure from, such as the oracle's; the best test score of the runs where that is higher."""

    definitions = (
        "The paper does not define its reward error. Here it is what a score (mean reward after the warm-up over"
        " the test trajectories) lacks to the optimum. The optimum is the best that is known: the score given as"
        " --optimum (`ctmle oracle` prints one), or the best test score of any of these runs if that is higher. The"
        " best of many noisy tests may lie above what any policy can reach, which makes the decay look slower, or"
        " below it if learning has not come to its end, which makes it look faster. The policy drawn from N"
        " episodes is what the paper's algorithm returns and its theorem bounds: its error is the mean of those of"
        " the first N. The exponent p is that of the power law N^p, by least squares in logarithms of the mean over"
        " seeds. It speaks for 1/sqrt(N) if its interval covers -1/2 and neither 0 (no decay) nor -1 (1/N)."
        " Intervals resample whole runs."
    )

    def runs(self, command: ReproduceCommand) -> list[TrainConfig]:
        found = []
        for environment in plan.environments(command, ("pendulum",)):
            config = plan.start(command, environment, "ct-mle", plan.LONG_EPISODES[environment])
            if command.size != "smoke":
                config = replace(config, gap=GAP)
            found += plan.seeded(command, config, paper=10, small=5)
        return found

    def errors(self, results: list[Result]) -> list[Errors]:
        found = []
        for environment, runs in grouped(results, lambda c: c.environment).items():
            scores = learning_curves(runs)
            best = float(scores.max())
            optimum = best if self.optimum is None else max(best, self.optimum)
            episodes = np.array(runs[0].episodes, float)
            found.append(Errors(environment, optimum, episodes, optimum - scores))
        return found

    def figure(self, results: list[Result]) -> Figure:
        return plot_errors(self.errors(results))

    def measured(self, results: list[Result]) -> Listing:
        columns = ("system", "episode", "seeds", "error", "error of a policy drawn so far")
        found = []
        for errors in self.errors(results):
            for i, episode in enumerate(errors.episodes):
                last, drawn = (bootstrap([e[:, i]], lambda g: float(g[0].mean())) for e in (errors.each, errors.so_far))
                found.append((errors.environment, f"{episode:.0f}", str(len(errors.each)), str(last), str(drawn)))
        optima = ", ".join(f"{errors.environment} {errors.optimum:.4g}" for errors in self.errors(results))
        return Listing(f"mean errors over seeds, 95% intervals; optimum: {optima}", columns, found)

    def verdicts(self, results: list[Result]) -> list[Verdict]:
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
