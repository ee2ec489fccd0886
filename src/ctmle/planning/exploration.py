"""How trajectories are driven that explore."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from ctmle.envs.base import Spec
from ctmle.planning.policy import Feedback, Policy, random_signal, silent_signal
from ctmle.settings import Count, CountFromZero, Share, option
from ctmle.training.updates import Trainer

WAVES = 3
"""Cosines in the signal of every policy: the same number, so that recorded policies can be stacked."""


@dataclass(frozen=True)
class Exploration(Trainer):
    """Drives the initial trajectories, and more in each episode if asked for."""

    initial: Count = option(1, "initial_trajectories")
    """[N_0] Exploring trajectories before the first episode."""
    per_episode: CountFromZero = option(0, "exploring_trajectories")
    """More exploring trajectories in each episode. They come first."""

    metrics: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def controller(self, state: Any, spec: Spec, feedback: Feedback, *, first: bool, key: PRNGKeyArray) -> Policy:
        """Return the policy of an exploring trajectory; `first` if it is one of the initial ones."""


@dataclass(frozen=True)
class SmoothSignals(Exploration):
    """Smooth random signals: alone at first, later added to the policy."""

    strength: Share = option(0.5, "exploring_strength")
    """Size of the signal that is added to the policy, as a share of the largest control."""

    def init(self, spec: Spec, key: PRNGKeyArray) -> None:
        return None

    def controller(self, state: None, spec: Spec, feedback: Feedback, *, first: bool, key: PRNGKeyArray) -> Policy:
        strength, gain = (1.0, 0.0) if first else (self.strength, 1.0)
        signal = random_signal(spec, key, waves=WAVES, strength=strength)
        return Policy(feedback, signal, jnp.asarray(gain, jnp.float32))


def plain(spec: Spec, feedback: Feedback) -> Policy:
    """Return the policy of a feedback without exploration."""
    return Policy(feedback, silent_signal(spec, WAVES), jnp.ones(()))
