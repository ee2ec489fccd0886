"""How long runs may take: from counting their arithmetic, until the first of them have ended and say it better."""

import math
from collections.abc import Iterable
from functools import singledispatch
from itertools import pairwise
from typing import Any

from ctmle.config import CTMLEConfig, ENODEConfig, ModelBasedConfig, SacTacosConfig, TrainConfig
from ctmle.config.ct_mle import LONGEST_SEGMENT
from ctmle.lab.sweeps.result import Result

RATE = 4.5e10
"""Floating-point operations per second and core, about what updates of the default sizes reach on an ordinary one."""

CALL = 5e-4
"""Seconds that an update costs beside its arithmetic."""

SET_UP = 15.0
"""Seconds of a run in which programs are compiled or read back, data is simulated and files are written."""


def rough_seconds(config: TrainConfig) -> float:
    """Of a run on one core. Good to a factor of two or three; between similar runs the ratio is much better."""
    return SET_UP + config.episodes * _episode(config.learner, config)


class Pace:
    """Rough seconds, corrected by the runs that have ended."""

    def __init__(self, ended: Iterable[Result] = ()):
        self.expected = self.taken = 0.0
        for result in ended:
            self.ended(result)

    def ended(self, result: Result) -> None:
        self.expected += rough_seconds(result.config)
        self.taken += result.seconds

    def seconds_for(self, rough: float) -> float:
        """For runs of so many rough seconds in all, one after another."""
        return rough * (self.taken / self.expected if self.taken else 1.0)


@singledispatch
def _episode(learner: Any, config: TrainConfig) -> float:
    """Seconds of the updates of one episode."""
    raise TypeError(f"no settings of an agent: {learner!r}")


@_episode.register
def _(learner: CTMLEConfig, config: TrainConfig) -> float:
    looks = learner.dynamics_batch * learner.dynamics_length * (2 if config.random_looks else 1)
    segments = math.ceil(config.gap / LONGEST_SEGMENT)
    slopes = segments * (6 if segments == 1 else 14) if learner.covariance == "moments" else 0
    return _fit(learner, looks, config, slopes) + _plan(learner)


@_episode.register
def _(learner: ENODEConfig, config: TrainConfig) -> float:
    return _fit(learner, learner.dynamics_batch * learner.dynamics_length, config) + _plan(learner)


@_episode.register
def _(learner: SacTacosConfig, config: TrainConfig) -> float:
    """With a decision at every fifth of the ticks between the shortest and the longest hold."""
    hold = learner.tick * (learner.min_hold + (learner.max_hold - learner.min_hold) / 5)
    decisions = learner.trajectories_per_episode * math.ceil(config.horizon / hold)
    networks = 5 * learner.batch * 3 * _flops(learner.hidden)
    return decisions * learner.updates_per_decision * (CALL + networks / RATE)


def _fit(learner: ModelBasedConfig, looks: int, config: TrainConfig, beside: int = 0) -> float:
    """With some nine evaluations of the drift for each step, gradients included, and others `beside`."""
    evaluations = 9 * math.ceil(config.gap / learner.longest_step) + beside
    flops = learner.ensemble * looks * evaluations * _flops(learner.dynamics_hidden)
    return learner.dynamics_updates * (CALL + flops / RATE)


def _plan(learner: ModelBasedConfig) -> float:
    steps = learner.policy_horizon / learner.policy_step
    imagined = learner.particles * steps * 2 * 3 * (_flops(learner.dynamics_hidden) + _flops(learner.policy_hidden))
    critic = learner.critic_steps * learner.critic_batch * 3 * _flops(learner.policy_hidden)
    return learner.policy_updates * (CALL * (1 + learner.critic_steps) + (imagined + critic) / RATE)


def _flops(hidden: tuple[int, ...]) -> float:
    """Of one evaluation of a network with a few inputs and outputs."""
    sizes = (6, *hidden, 3)
    return sum(2.0 * a * b for a, b in pairwise(sizes))
