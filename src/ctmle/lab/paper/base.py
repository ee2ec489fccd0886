"""The interface of the paper's experiments, and the settings that their runs start from."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from ctmle.lab.experiment import Experiment, start as start_of
from ctmle.lab.paper.request import PaperRequest
from ctmle.lab.paper.verdict import Verdict
from ctmle.lab.report.run_result import RunResult
from ctmle.lab.report.tables import Listing

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

SMOKE_RUN: dict[str, Any] = {"horizon": 4.0, "gap": 0.25, "step": 0.05, "test_trajectories": 3, "chunk": 4,
                             "initial_trajectories": 2, "episodes": SMOKE_EPISODES}  # fmt: skip
SMOKE_TACOS: dict[str, Any] = {"max_hold": 10, "hidden": (8, 8), "batch": 8, "updates_per_decision": 0.5,
                               "replay_capacity": 64}  # fmt: skip
SMOKE_MODEL: dict[str, Any] = {
    "ensemble": 2,
    "dynamics_hidden": (16, 16),
    "policy_hidden": (16, 16),
    "dynamics_batch": 3,
    "dynamics_length": 3,
    "dynamics_updates": 6,
    "policy_updates": 6,
    "particles": 8,
    "critic_steps": 2,
    "critic_batch": 16,
    "trajectory_seconds": None,
}
SMOKE = {
    "ct-mle": SMOKE_RUN | SMOKE_MODEL,
    "enode": SMOKE_RUN | SMOKE_MODEL | {"matching_updates": 6, "matching_batch": 4},
    "sac-tacos": SMOKE_RUN | SMOKE_TACOS,
}
"""Settings that only test the code, by agent."""


class PaperExperiment(ABC):
    """One of the paper's experiments: a request becomes runs, and results of runs become findings.

    Results are those of finished runs, at least one of them.
    """

    definitions: str
    """Definitions of the quantities, for readers of the tables."""

    @abstractmethod
    def runs(self, request: PaperRequest) -> list[Experiment]:
        """List the runs that a request asks for."""

    @abstractmethod
    def measured(self, results: list[RunResult]) -> Listing:
        """Tabulate the measured quantities."""

    @abstractmethod
    def verdicts(self, results: list[RunResult]) -> list[Verdict]:
        """Judge each of the paper's claims."""

    @abstractmethod
    def figure(self, results: list[RunResult]) -> Figure:
        """Draw the paper's figure."""


def environments(request: PaperRequest, usual: Sequence[str] = tuple(EPISODES)) -> tuple[str, ...]:
    """Return the systems of a request: those that it names, else the usual ones, or the easiest alone for `smoke`."""
    return tuple(request.environments or (usual[:1] if request.size == "smoke" else usual))


def start(request: PaperRequest, environment: str, agent: str, episodes: int, **options: Any) -> Experiment:
    """Return a run of one agent on one system from the request's preset, made tiny for `smoke`."""
    tiny = SMOKE[agent] if request.size == "smoke" else {}
    return start_of(environment, agent, request.preset).changed(
        {"sigma": SIGMA, "episodes": episodes, **tiny, **options}
    )


def seeded(request: PaperRequest, run: Experiment, *, paper: int, small: int) -> list[Experiment]:
    """Repeat a run with each seed: as many as the request names, or as its size has."""
    seeds = request.seeds or {"paper": paper, "small": small, "smoke": SMOKE_SEEDS}[request.size]
    return [run.changed({"seed": seed}) for seed in range(seeds)]
