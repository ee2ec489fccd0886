"""Made-up results of runs: what an experiment would see if the world were as a test says."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ctmle.lab.experiment import Experiment
from ctmle.lab.sweeps import RunResult
from ctmle.lab.sweeps.plan import settings_of

Scores = Callable[[dict[str, Any], np.random.Generator], Sequence[float]]
"""Test scores of every episode of a run, from its settings."""


def results(runs: Sequence[Experiment], scores: Scores) -> list[RunResult]:
    """Make up a result for each run. Each has its own randomness, so that more runs leave the first ones unchanged."""
    return [_result(number, settings_of(run), scores) for number, run in enumerate(runs)]


def failed(result: RunResult) -> RunResult:
    return replace(result, status="failed", reason="a loss is not finite", episodes=(), scores=(), looks=())


def _result(number: int, settings: dict[str, Any], scores: Scores) -> RunResult:
    random = np.random.default_rng([number, settings["seed"]])
    found = [float(score) for score in scores(settings, random)]
    first = next((i + 1 for i, score in enumerate(found) if score >= settings["success"]), None)
    if settings["stop_at_success"] and first is not None:
        found = found[:first]
    episodes = tuple(range(1, len(found) + 1))
    looks = tuple(161 * (3 + episode) for episode in episodes)
    return RunResult(
        name=f"run-{number}",
        settings=settings,
        status="finished",
        episodes=episodes,
        scores=tuple(found),
        score_errors=tuple(0.01 for _ in found),
        looks=looks,
        first_success=first,
        looks_to_success=None if first is None else looks[first - 1] - 161,
        seconds_to_success=None if first is None else 10.0 * (2 + first),
        seconds=10.0 * len(found),
    )


def success_at(episode: float, settings: dict[str, Any]) -> list[float]:
    """Scores of a run that first succeeds at this episode, if it has so many."""
    return [0.95 if n >= episode else 0.3 for n in range(1, settings["episodes"] + 1)]


def learners(**tops):
    """Scores that rise from 0.1 to each agent's top, with a little noise."""

    def scores(settings, random):
        n = np.arange(settings["episodes"])
        return 0.1 + (tops[settings["agent"].replace("-", "_")] - 0.1) * n / n[-1] + random.normal(0, 0.01, len(n))

    return scores


def gaps_rise(settings, random):
    """Double the best gap and add an episode for each unit of sigma; away from the best gap it takes longer."""
    away = abs(np.log2(settings["gap"]) - (-4 + settings["sigma"]))
    return success_at(1 + round(settings["sigma"] + 2 * away + 0.2 * random.normal()), settings)


def gaps_fall(settings, random):
    return gaps_rise({**settings, "sigma": 2.0 - settings["sigma"]}, random)


def widths(effect):
    def scores(settings, random):
        gain = effect * (settings["dynamics_hidden"][0] - 150) / 100
        return 0.6 + gain + random.normal(0, 0.01, settings["episodes"])

    return scores


def errors(exponent, optimum=0.98):
    def scores(settings, random):
        n = np.arange(1, settings["episodes"] + 1)
        return optimum - 0.3 * n**exponent * np.exp(random.normal(0, 0.1, len(n)))

    return scores


SHOWING = {
    "comparison": learners(ct_mle=0.95, enode=0.12, sac_tacos=0.6),
    "gap": gaps_rise,
    "width": widths(0.0),
    "convergence": errors(-0.5),
}
"""Worlds in which each experiment shows what the paper claims."""
