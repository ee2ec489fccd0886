"""Runs side by side: scores against episodes and against looks, averaged over seeds."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ctmle.checks import option
from ctmle.config import ENVIRONMENT_NAMES, TrainConfig

TASK = ("unit", "horizon", "uniform_start", "bang_bang", "underactuated", "step", "evaluation")
"""What scores depend on besides the environment and its noise: equal for all runs of a panel."""

NO_DIFFERENCE = ("environment", "sigma", "preset", "seed", "config", "out", "episodes", "test_every", "stop_at_success",
                 "checkpoint_every", "checkpoints_kept", *TASK)  # fmt: skip
"""Settings by which runs of one agent do not count as different from each other."""


@runtime_checkable
class TestedRun(Protocol):
    """What is compared of a run, wherever it is known from: a run folder, or the one line that a sweep keeps of it."""

    @property
    def name(self) -> str: ...
    @property
    def config(self) -> TrainConfig: ...
    @property
    def episodes(self) -> tuple[int, ...]:
        """Numbers of the tested episodes; scores and looks have one entry for each."""
        ...

    @property
    def scores(self) -> tuple[float, ...]: ...
    @property
    def looks(self) -> tuple[int, ...]: ...
    @property
    def first_success(self) -> int | None: ...
    @property
    def looks_to_success(self) -> int | None: ...


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


def compare(runs: Sequence[TestedRun]) -> list[Panel]:
    """A panel for each environment and noise level. Raises ValueError for runs that cannot be compared."""
    tasks: dict[tuple[str, float], list[TestedRun]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: (ENVIRONMENT_NAMES.index(run.config.environment), run.config.sigma)):
        tasks[run.config.environment, run.config.sigma].append(run)
    return [_panel(*task, runs) for task, runs in tasks.items()]


def _panel(environment: str, sigma: float, runs: list[TestedRun]) -> Panel:
    first = runs[0].config
    for run in runs[1:]:
        for name in TASK:
            here, there = getattr(first, name), getattr(run.config, name)
            if here != there:
                raise ValueError(
                    f"{runs[0].name} and {run.name} are not of one task: {option(name)} is {here} and {there};"
                    " compare runs that differ in agent and seed only"
                )
    named: dict[str, list[TestedRun]] = defaultdict(list)
    for run in runs:
        named[_name(run, [other for other in runs if other.config.agent == run.config.agent])].append(run)
    curves = tuple(_curve(name, group) for name, group in named.items())
    return Panel(environment, sigma, first.evaluation.success, first.evaluation.warm_up, curves)


def _name(run: TestedRun, same_agent: list[TestedRun]) -> str:
    """The agent, with the settings by which runs of the same agent differ."""
    own, others = _settings(run), [_settings(other) for other in same_agent]
    odd = [name for name in own if any(other[name] != own[name] for other in others)]
    return ", ".join([run.config.agent, *(f"{name.replace('_', ' ')} {own[name]}" for name in odd)])


def _settings(run: TestedRun) -> dict[str, Any]:
    """What a run does differently from others of its agent, flat."""
    content = asdict(run.config)
    flat = {name: value for name, value in content.items() if name not in (*NO_DIFFERENCE, "learner", "agent")}
    return flat | content["learner"]


def _curve(name: str, runs: list[TestedRun]) -> Curve:
    by_seed: dict[int, TestedRun] = {}
    for run in runs:
        if run.config.seed in by_seed:
            raise ValueError(
                f"{by_seed[run.config.seed].name} and {run.name} are the same run, seed {run.config.seed}, twice:"
                " leave one out"
            )
        by_seed[run.config.seed] = run
    episodes = sorted(set.intersection(*(set(run.episodes) for run in runs)))
    if not episodes:
        raise ValueError(f"the seeds of {name} have no tested episode in common: use the same --test-every")
    scores = np.array([_at(episodes, run.episodes, run.scores) for run in runs])
    looks = np.array([_at(episodes, run.episodes, run.looks) for run in runs])
    spread = scores.std(axis=0, ddof=1) / len(runs) ** 0.5 if len(runs) > 1 else None
    wins = [run.first_success for run in runs if run.first_success is not None]
    spent = [run.looks_to_success for run in runs if run.looks_to_success is not None]
    return Curve(
        agent=name,
        seeds=tuple(sorted(by_seed)),
        episodes=tuple(episodes),
        looks=tuple(looks.mean(axis=0).tolist()),
        score=tuple(scores.mean(axis=0).tolist()),
        score_se=None if spread is None else tuple(spread.tolist()),
        succeeded=len(wins),
        episodes_to_success=float(np.mean(wins)) if wins else None,
        looks_to_success=float(np.mean(spent)) if spent else None,
    )


def _at(episodes: Sequence[int], tested: Sequence[int], values: Sequence[float] | Sequence[int]) -> list[float]:
    found = dict(zip(tested, values, strict=True))
    return [float(found[episode]) for episode in episodes]
