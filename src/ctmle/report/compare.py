"""Runs side by side: scores against episodes and against looks, averaged over seeds."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ctmle.checks import option
from ctmle.config import TrainConfig
from ctmle.storage.run_folder import RunFolder

TASK = ("unit", "horizon", "uniform_start", "bang_bang", "underactuated", "step", "evaluation")
"""What scores depend on besides the environment and its noise: equal for all runs of a panel."""

NO_DIFFERENCE = ("environment", "sigma", "preset", "seed", "config", "out", "episodes", "test_every", "stop_at_success",
                 "checkpoint_every", "checkpoints_kept", *TASK)  # fmt: skip
"""Settings by which runs of one agent do not count as different from each other."""


@dataclass(frozen=True)
class SavedRun:
    """What a run folder says."""

    path: str
    config: TrainConfig
    records: list[dict[str, Any]]

    @staticmethod
    def read(path: str) -> "SavedRun":
        folder = RunFolder.open(path)
        records = folder.read_metrics()
        if not records:
            raise ValueError(f"{path} has finished no episode yet: go on with `ctmle resume {path}`")
        return SavedRun(path, folder.read_config(), records)

    @property
    def settings(self) -> dict[str, Any]:
        """What this run does differently from others of its agent, flat."""
        content = asdict(self.config)
        flat = {name: value for name, value in content.items() if name not in (*NO_DIFFERENCE, "learner", "agent")}
        return flat | content["learner"]


@dataclass(frozen=True)
class Curve:
    """One agent on one task: means over seeds, at the episodes that every seed was tested at."""

    agent: str
    seeds: tuple[int, ...]
    episodes: tuple[int, ...]
    looks: tuple[float, ...]
    score: tuple[float, ...]
    score_se: tuple[float, ...] | None
    """Standard error over seeds; none for a single seed."""
    succeeded: int
    """How many seeds ever had a score that counts as success, ..."""
    episodes_to_success: float | None
    """... after how many episodes, ..."""
    looks_to_success: float | None
    """... and after how many looks, both the mean over those seeds."""


@dataclass(frozen=True)
class Panel:
    """One task."""

    environment: str
    sigma: float
    success_at: float
    warm_up: float
    curves: tuple[Curve, ...]


def compare(paths: Sequence[str]) -> list[Panel]:
    """A panel for each environment and noise level. Raises ValueError for runs that cannot be compared."""
    tasks: dict[tuple[str, float], list[SavedRun]] = defaultdict(list)
    for run in map(SavedRun.read, paths):
        tasks[run.config.environment, run.config.sigma].append(run)
    return [_panel(*task, runs) for task, runs in sorted(tasks.items())]


def _panel(environment: str, sigma: float, runs: list[SavedRun]) -> Panel:
    first = runs[0].config
    for run in runs[1:]:
        for name in TASK:
            here, there = getattr(first, name), getattr(run.config, name)
            if here != there:
                raise ValueError(
                    f"{runs[0].path} and {run.path} are not of one task: {option(name)} is {here} and {there};"
                    " compare runs that differ in agent and seed only"
                )
    named: dict[str, list[SavedRun]] = defaultdict(list)
    for run in runs:
        named[_name(run, [other for other in runs if other.config.agent == run.config.agent])].append(run)
    curves = tuple(_curve(name, group) for name, group in named.items())
    return Panel(environment, sigma, first.evaluation.success, first.evaluation.warm_up, curves)


def _name(run: SavedRun, same_agent: list[SavedRun]) -> str:
    """The agent, with the settings by which runs of the same agent differ."""
    own = run.settings
    odd = [name for name in own if any(other.settings[name] != own[name] for other in same_agent)]
    return ", ".join([run.config.agent, *(f"{name.replace('_', ' ')} {own[name]}" for name in odd)])


def _curve(name: str, runs: list[SavedRun]) -> Curve:
    by_seed: dict[int, SavedRun] = {}
    for run in runs:
        if run.config.seed in by_seed:
            raise ValueError(
                f"{by_seed[run.config.seed].path} and {run.path} are the same run, seed {run.config.seed}, twice:"
                " leave one out"
            )
        by_seed[run.config.seed] = run
    tested = [{record["episode"]: record for record in run.records} for run in by_seed.values()]
    episodes = sorted(set.intersection(*(set(records) for records in tested)))
    if not episodes:
        raise ValueError(f"the seeds of {name} have no tested episode in common: use the same --test-every")
    scores = np.array([[records[e]["score"] for e in episodes] for records in tested])
    looks = np.array([[records[e]["looks"] for e in episodes] for records in tested], float)
    wins = [next((r for r in run.records if r["success"]), None) for run in by_seed.values()]
    wins = [record for record in wins if record is not None]
    spread = scores.std(axis=0, ddof=1) / len(tested) ** 0.5 if len(tested) > 1 else None
    return Curve(
        agent=name,
        seeds=tuple(sorted(by_seed)),
        episodes=tuple(episodes),
        looks=tuple(looks.mean(axis=0).tolist()),
        score=tuple(scores.mean(axis=0).tolist()),
        score_se=None if spread is None else tuple(spread.tolist()),
        succeeded=len(wins),
        episodes_to_success=float(np.mean([r["episode"] for r in wins])) if wins else None,
        looks_to_success=float(np.mean([r["looks"] for r in wins])) if wins else None,
    )
