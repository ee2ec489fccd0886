"""What the runs of an experiment came to, as numbers."""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

import numpy as np
from jaxtyping import Float

from ctmle.config import TrainConfig
from ctmle.lab.report.statistics import Estimate, bootstrap, interquartile_mean
from ctmle.lab.sweeps import Result

Key = TypeVar("Key", bound=Hashable)


def finished(results: Iterable[Result]) -> list[Result]:
    """Failed runs say nothing about how well an agent does: they are counted, and left out."""
    return [result for result in results if result.status == "finished"]


def grouped(results: Iterable[Result], key: Callable[[TrainConfig], Key]) -> dict[Key, list[Result]]:
    """In the order in which the keys first appear."""
    groups: dict[Key, list[Result]] = defaultdict(list)
    for result in results:
        groups[key(result.config)].append(result)
    return dict(groups)


def learning_curves(results: Sequence[Result]) -> Float[np.ndarray, "seeds episodes"]:
    """Test scores of runs that were tested at the same episodes; of no run, none."""
    return np.array([result.scores for result in results], float) if results else np.empty((0, 0))


def final_scores(results: Sequence[Result]) -> Float[np.ndarray, " seeds"]:
    return np.array([result.scores[-1] for result in results], float)


def episodes_to_success(results: Sequence[Result]) -> Float[np.ndarray, " seeds"]:
    """A run that never succeeds counts as one that would have in the first episode after its last."""
    return np.array([result.first_success or result.config.episodes + 1 for result in results], float)


def mean_final_score(results: Sequence[Result]) -> Estimate:
    """Interquartile mean over seeds."""
    return bootstrap([final_scores(results)], lambda groups: interquartile_mean(groups[0]), bounds=(-math.inf, 1.0))


def mean_episodes(results: Sequence[Result]) -> Estimate:
    """Mean episodes to success over seeds; at least so many, where a run did not succeed."""
    most = max((result.config.episodes + 1.0 for result in results), default=math.inf)
    return bootstrap([episodes_to_success(results)], lambda groups: float(groups[0].mean()), bounds=(1.0, most))


def successes(results: Sequence[Result]) -> str:
    return f"{sum(result.first_success is not None for result in results)} of {len(results)}"


def width(config: TrainConfig) -> int:
    """Units per hidden layer of the dynamics."""
    return config.learner.dynamics_hidden[0]
