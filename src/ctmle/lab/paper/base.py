"""The interface of the paper's experiments, the settings that their runs start from, and decisions about claims."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from matplotlib.figure import Figure
from rich.table import Table

from ctmle.lab.experiment import Experiment, start as start_of
from ctmle.lab.paper import PaperRequest
from ctmle.lab.report.results import (
    RunResult,
    Settings,
    episodes_to_success,
    final_scores,
    grouped,
    successes,
    text_table,
)
from ctmle.lab.report.statistics import Estimate, bootstrap, interquartile_mean

Decision = Literal["agrees", "disagrees", "not decided"]

SIGMA = 2.0
"""Noise level of every experiment but that of the gaps."""
EPISODES = {"pendulum": 5, "cartpole": 15, "acrobot": 15}
"""Episodes after which the paper compares agents ("Performance is evaluated after ...")."""
LONG_EPISODES = {"pendulum": 15, "cartpole": 30, "acrobot": 25}
"""Episodes of the paper's longest runs ("Each 15-episode Pendulum swing-up task ...")."""
PAPER_SEEDS = {"pendulum": 10, "cartpole": 5, "acrobot": 5}
"""Seeds of the paper's figure of the gaps; it does not say how many its comparison has."""
SMOKE_EPISODES = 2
SMOKE_SEEDS = 2

OF_THE_PAPER: dict[str, Any] = {"model": "ensemble", "initial_trajectories": 3,
                               "first_seconds": None, "trajectory_seconds": None, "growth": 1.0}  # fmt: skip
"""What CT-MLE keeps of the paper here, whatever the default preset has: its networks, and lengths that suit them."""

SMOKE_RUN: dict[str, Any] = {"horizon": 4.0, "gap": 0.25, "step": 0.05, "test_trajectories": 3, "chunk": 4,
                             "initial_trajectories": 2, "episodes": SMOKE_EPISODES}  # fmt: skip
SMOKE_TACOS: dict[str, Any] = {"max_hold": 10, "hidden": (8, 8), "batch": 8, "updates_per_decision": 0.5,
                               "replay_capacity": 64}  # fmt: skip
SMOKE_MODEL: dict[str, Any] = {"ensemble": 2, "dynamics_hidden": (16, 16), "dynamics_batch": 3, "dynamics_length": 3,
                               "dynamics_updates": 6, "policy_hidden": (16, 16), "policy_updates": 6, "particles": 8,
                               "critic_steps": 2, "critic_batch": 16, "trajectory_seconds": None}  # fmt: skip
SMOKE = {
    "ct-mle": SMOKE_RUN | SMOKE_MODEL,
    "enode": SMOKE_RUN | SMOKE_MODEL | {"matching_updates": 6, "matching_batch": 4},
    "sac-tacos": SMOKE_RUN | SMOKE_TACOS,
}
"""Settings that only test the code, by agent."""


@dataclass(frozen=True)
class Verdict:
    """One line of an experiment's table of verdicts."""

    claim: str
    """The paper's claim, in our words."""
    found: str
    """The estimate from these runs with its interval."""
    decision: Decision
    seeds: int
    """Seeds in the smallest group that the estimate is made from."""


@dataclass(frozen=True)
class PaperExperiment:
    """One of the paper's experiments: a request becomes runs, and results of runs become findings.

    Results are those of finished runs, at least one of them.
    """

    definitions: str
    """Definitions of the quantities, for readers of the tables."""
    runs: Callable[[PaperRequest], list[Experiment]]
    """Lists the runs that a request asks for."""
    measured: Callable[[list[RunResult]], Table]
    """Tabulates the measured quantities."""
    verdicts: Callable[[list[RunResult]], list[Verdict]]
    """Judges each of the paper's claims."""
    figure: Callable[[list[RunResult]], Figure]
    """Draws the paper's figure."""


# Runs


def environments(request: PaperRequest, usual: Sequence[str] = tuple(EPISODES)) -> tuple[str, ...]:
    """Return the systems of a request: those that it names, else the usual ones, or the easiest alone for `smoke`."""
    return tuple(request.environments or (usual[:1] if request.size == "smoke" else usual))


def start(request: PaperRequest, environment: str, agent: str, episodes: int, **options: Any) -> Experiment:
    """Return a run of one agent on one system from the request's preset, made tiny for `smoke`."""
    tiny = SMOKE[agent] if request.size == "smoke" else {}
    own = OF_THE_PAPER if (agent, request.preset) == ("ct-mle", "default") else {}
    return start_of(environment, agent, request.preset).changed(
        {"sigma": SIGMA, "episodes": episodes, **own, **tiny, **options}
    )


def seeded(request: PaperRequest, run: Experiment, *, paper: int, small: int) -> list[Experiment]:
    """Repeat a run with each seed: as many as the request names, or as its size has."""
    seeds = request.seeds or {"paper": paper, "small": small, "smoke": SMOKE_SEEDS}[request.size]
    return [run.changed({"seed": seed}) for seed in range(seeds)]


# Numbers of a group of runs


def mean_final_score(results: Sequence[RunResult]) -> Estimate:
    """Estimate the interquartile mean of last scores over seeds."""
    return bootstrap([final_scores(results)], lambda groups: interquartile_mean(groups[0]), bounds=(-math.inf, 1.0))


def mean_episodes(results: Sequence[RunResult]) -> Estimate:
    """Estimate the mean of episodes to success over seeds: a lower bound if a run did not succeed."""
    most = max((result.settings["episodes"] + 1.0 for result in results), default=math.inf)
    return bootstrap([episodes_to_success(results)], lambda groups: float(groups[0].mean()), bounds=(1.0, most))


def score_table(results: list[RunResult], name: str, of: Callable[[Settings], Any]) -> Table:
    """Tabulate final scores and episodes to success for each system and each value of a setting."""
    rows = []
    for (environment, value), runs in grouped(results, lambda own: (own["environment"], of(own))).items():
        numbers = (str(mean_final_score(runs)), str(mean_episodes(runs)), successes(runs))
        rows.append((environment, str(value), str(len(runs)), *numbers))
    title = "final scores (interquartile mean) and episodes to success (mean), 95% intervals"
    return text_table(title, ("system", name, "seeds", "final score", "episodes to success", "succeeded"), rows)


# Decisions: an estimate agrees with a claim, disagrees, or its interval covers both


def lies_between(estimate: Estimate, low: float, high: float) -> Decision:
    """Decide on the claim that the quantity lies between two limits."""
    if estimate.interval is None:
        return "not decided"
    lowest, highest = estimate.interval
    if low < lowest and highest < high:
        return "agrees"
    return "disagrees" if highest < low or lowest > high else "not decided"


def above(estimate: Estimate, limit: float) -> Decision:
    """Decide on the claim that the quantity is larger than the limit."""
    return lies_between(estimate, limit, math.inf)


def below(estimate: Estimate, limit: float) -> Decision:
    """Decide on the claim that the quantity is smaller than the limit."""
    return lies_between(estimate, -math.inf, limit)


def within(estimate: Estimate, margin: float) -> Decision:
    """Decide on the claim that a difference is smaller than the margin, in either direction."""
    return lies_between(estimate, -margin, margin)


def is_value(estimate: Estimate, claimed: float, others: tuple[float, ...]) -> Decision:
    """Decide on the claim that the quantity has one value rather than one of the others."""
    if estimate.interval is None:
        return "not decided"
    low, high = estimate.interval
    if not low <= claimed <= high:
        return "disagrees"
    return "not decided" if any(low <= other <= high for other in others) else "agrees"
