"""Results of runs that nobody ran: what an experiment would see if the world were as a test says."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ctmle.config import TrainConfig
from ctmle.sweeps import Result

Scores = Callable[[TrainConfig, np.random.Generator], Sequence[float]]
"""Test scores of every episode of a run."""


def results(configs: Sequence[TrainConfig], scores: Scores) -> list[Result]:
    """Each run has randomness of its own, so that more runs leave those that there were as they are."""
    return [_result(number, config, scores) for number, config in enumerate(configs)]


def failed(result: Result) -> Result:
    return replace(result, status="failed", reason="a loss is not finite", episodes=(), scores=(), looks=())


def _result(number: int, config: TrainConfig, scores: Scores) -> Result:
    random = np.random.default_rng([number, config.seed])
    found = [float(score) for score in scores(config, random)]
    first = next((i + 1 for i, score in enumerate(found) if score >= config.evaluation.success), None)
    if config.stop_at_success and first is not None:
        found = found[:first]
    episodes = tuple(range(1, len(found) + 1))
    looks = tuple(161 * (3 + episode) for episode in episodes)
    return Result(
        name=f"run-{number}",
        config=config,
        status="finished",
        episodes=episodes,
        scores=tuple(found),
        score_errors=tuple(0.01 for _ in found),
        looks=looks,
        first_success=first,
        looks_to_success=None if first is None else looks[first - 1],
        seconds=10.0 * len(found),
    )


def success_at(episode: float, config: TrainConfig) -> list[float]:
    """Scores of a run that first succeeds at this episode, if it has so many."""
    return [0.95 if n >= episode else 0.3 for n in range(1, config.episodes + 1)]
