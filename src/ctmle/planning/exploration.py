"""How trajectories are driven that explore."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from ctmle.envs.base import Spec
from ctmle.models.world import World
from ctmle.planning.information import information, stacked
from ctmle.planning.policy import Feedback, Policy, random_signal, silent_signal
from ctmle.planning.rollout import step_within
from ctmle.settings import Count, CountFromZero, Positive, Share, option
from ctmle.training.updates import Trainer

SHARES = ((0.25, 1.0), (0.5, 1.0), (1.0, 1.0), (1.0, 0.0))
"""Strength of the signal and gain of the feedback of candidates, in turn."""

STEP = 0.1
"""Step of the trajectories that candidates are imagined by, in seconds."""

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

    def acting(self, policy: Policy, world: World, spec: Spec, seconds: float, key: PRNGKeyArray) -> Policy:
        """Return what drives an episode's own trajectory of so many seconds, given the agent's policy."""
        return policy

    @abstractmethod
    def controller(self, state: Any, spec: Spec, feedback: Feedback, *, first: bool, key: PRNGKeyArray) -> Policy:
        """Return the policy of an exploring trajectory; `first` if it is one of the initial ones."""


@dataclass(frozen=True)
class SmoothSignals(Exploration):
    """Smooth random signals: alone at first, later added to the policy.

    With `candidates`, an episode's own trajectory asks what the model does not know: it is driven by the policy, or by
    the policy or nothing plus a random signal, whichever tells most in imagined trajectories.
    """

    strength: Share = option(0.5, "exploring_strength")
    """Size of the signal that is added to the policy, as a share of the largest control."""

    candidates: CountFromZero = option(0, "exploring_candidates")
    """Random signals among which an episode's own trajectory chooses as long as the model is unsure; 0: the policy."""
    unsure: Positive = option(10.0, "exploring_unsure")
    """Nats per second that the policy's own trajectory tells if the model is unsure."""

    def init(self, spec: Spec, key: PRNGKeyArray) -> None:
        return None

    def acting(self, policy: Policy, world: World, spec: Spec, seconds: float, key: PRNGKeyArray) -> Policy:
        if self.candidates == 0:
            return policy
        tried = [policy]
        for number in range(self.candidates):
            strength, gain = SHARES[number % len(SHARES)]
            signal = random_signal(spec, jax.random.fold_in(key, number), waves=WAVES, strength=strength)
            tried.append(Policy(policy.feedback, signal, jnp.asarray(gain, jnp.float32)))
        step = step_within(STEP, spec.hold)
        told = information(world, spec, stacked(tried), key, max(1, round(seconds / step)), step)
        return tried[int(jnp.argmax(told))] if told[0] > self.unsure else policy

    def controller(self, state: None, spec: Spec, feedback: Feedback, *, first: bool, key: PRNGKeyArray) -> Policy:
        strength, gain = (1.0, 0.0) if first else (self.strength, 1.0)
        signal = random_signal(spec, key, waves=WAVES, strength=strength)
        return Policy(feedback, signal, jnp.asarray(gain, jnp.float32))


def plain(spec: Spec, feedback: Feedback) -> Policy:
    """Return the policy of a feedback without exploration."""
    return Policy(feedback, silent_signal(spec, WAVES), jnp.ones(()))
