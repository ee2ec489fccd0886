"""Numbers that experiments read from their runs."""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

import numpy as np
from jaxtyping import Float

from ctmle.lab.report.run_result import RunResult, Settings
from ctmle.lab.report.statistics import Estimate, bootstrap, interquartile_mean

Key = TypeVar("Key", bound=Hashable)


def finished(results: Iterable[RunResult]) -> list[RunResult]:
    """Return the finished runs. Failed ones say nothing about how good an agent is: they are counted and left out."""
    return [result for result in results if result.status == "finished"]


def grouped(results: Iterable[RunResult], key: Callable[[Settings], Key]) -> dict[Key, list[RunResult]]:
    """Group runs by a key of their settings, in the order in which the keys first appear."""
    groups: dict[Key, list[RunResult]] = defaultdict(list)
    for result in results:
        groups[key(result.settings)].append(result)
    return dict(groups)


def by_system(results: Iterable[RunResult]) -> dict[str, list[RunResult]]:
    """Group runs by their environment."""
    return grouped(results, lambda settings: settings["environment"])


def learning_curves(results: Sequence[RunResult]) -> Float[np.ndarray, "seeds episodes"]:
    """Return the test scores of runs that were tested at the same episodes."""
    return np.array([result.scores for result in results], float) if results else np.empty((0, 0))


def final_scores(results: Sequence[RunResult]) -> Float[np.ndarray, " seeds"]:
    """Return the last score of each run."""
    return np.array([result.scores[-1] for result in results], float)


def episodes_to_success(results: Sequence[RunResult]) -> Float[np.ndarray, " seeds"]:
    """Return each run's first successful episode; one more than its number of episodes if it never succeeds."""
    return np.array([result.first_success or result.settings["episodes"] + 1 for result in results], float)


def mean_final_score(results: Sequence[RunResult]) -> Estimate:
    """Estimate the interquartile mean of last scores over seeds."""
    return bootstrap([final_scores(results)], lambda groups: interquartile_mean(groups[0]), bounds=(-math.inf, 1.0))


def mean_episodes(results: Sequence[RunResult]) -> Estimate:
    """Estimate the mean of episodes to success over seeds: a lower bound if a run did not succeed."""
    most = max((result.settings["episodes"] + 1.0 for result in results), default=math.inf)
    return bootstrap([episodes_to_success(results)], lambda groups: float(groups[0].mean()), bounds=(1.0, most))


def successes(results: Sequence[RunResult]) -> str:
    """Count the runs that succeeded, in words."""
    return f"{sum(result.first_success is not None for result in results)} of {len(results)}"
