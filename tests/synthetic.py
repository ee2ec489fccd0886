"""Results of runs that nobody ran: what an experiment would see if the world were as a test says."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ctmle.config import TrainConfig
from ctmle.lab.sweeps import Result

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


def learners(**tops):
    """Scores that rise from 0.1 to each agent's top, with a little noise."""

    def scores(config, random):
        n = np.arange(config.episodes)
        return 0.1 + (tops[config.agent.replace("-", "_")] - 0.1) * n / n[-1] + random.normal(0, 0.01, len(n))

    return scores


def gaps_rise(config, random):
    """Twice the gap for each unit of sigma, and one episode more; away from the best gap it takes longer."""
    away = abs(np.log2(config.gap) - (-4 + config.sigma))
    return success_at(1 + round(config.sigma + 2 * away + 0.2 * random.normal()), config)


def gaps_fall(config, random):
    return gaps_rise(replace(config, sigma=2.0 - config.sigma), random)


def widths(effect):
    def scores(config, random):
        gain = effect * (config.learner.dynamics_hidden[0] - 150) / 100
        return 0.6 + gain + random.normal(0, 0.01, config.episodes)

    return scores


def errors(exponent, optimum=0.98):
    def scores(config, random):
        n = np.arange(1, config.episodes + 1)
        return optimum - 0.3 * n**exponent * np.exp(random.normal(0, 0.1, len(n)))

    return scores


SHOWING = {
    "comparison": learners(ct_mle=0.95, enode=0.12, sac_tacos=0.6),
    "gap": gaps_rise,
    "width": widths(0.0),
    "convergence": errors(-0.5),
}
"""Worlds in which each experiment shows what the paper claims."""
