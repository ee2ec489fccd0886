"""Settings of `ctmle reproduce`: the paper's experiments."""

from dataclasses import dataclass
from typing import Literal, get_args

import tyro

from ctmle.config.sweep import HowToRun

ExperimentName = Literal["comparison", "gap", "width", "convergence"]
SizeName = Literal["paper", "small", "smoke"]
PaperEnvironment = Literal["pendulum", "cartpole", "acrobot"]

PAPER_ENVIRONMENTS: tuple[PaperEnvironment, ...] = get_args(PaperEnvironment)
"""In the paper's order, from easy to hard."""


@dataclass(frozen=True)
class ReproduceCommand(HowToRun):
    """Repeat one of the paper's experiments, and say whether these runs bear out what the paper claims.

    What can be repeated:

        comparison   CT-MLE beside ENODE and SAC-TaCoS on three systems at sigma = 2 (figure "comp" of the paper)
        gap          the gap that needs the fewest episodes, and how many, against sigma (figure "exp")
        width        networks of 150 to 250 units per layer on Pendulum (figure "abl-nn")
        convergence  reward error against episodes, beside 1/sqrt(N) (figure "exp_con")

    Ends with a figure, a CSV with a row per run, and a table of verdicts: the paper's claim, what these runs say with a
    95% interval, and whether they agree. Runs that are there already are not repeated: the same command with more
    --seeds does only the new ones. docs/reproduce.md has the definitions.
    """

    experiment: tyro.conf.Positional[ExperimentName]
    """Which of them."""
    size: SizeName = "small"
    """The paper's whole grid (days), one that two cores manage in hours, or one that only shows that all of it runs."""
    seeds: int | None = None
    """Seeds 0, 1, ... of every setting; none: as many as the size has."""
    environments: tuple[PaperEnvironment, ...] = ()
    """Which systems; none: those of the size."""
    preset: Literal["default", "paper"] = "default"
    """Where the agents' settings start from: what we found to work, or the papers' tables literally."""
    optimum: float | None = None
    """convergence only: score to measure errors from (see `ctmle oracle`), unless a test of these runs is better."""


def check_reproduce(command: ReproduceCommand) -> None:
    """Raises ValueError for settings that do not fit together."""
    if len(set(command.environments)) < len(command.environments):
        raise ValueError("--environments has the same system twice: give each once")
    if command.optimum is not None and command.experiment != "convergence":
        raise ValueError(
            f"--optimum is what errors of convergence are measured from: leave it out for {command.experiment}"
        )
