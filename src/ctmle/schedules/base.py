"""Measurement times of an episode, and the schedules that decide them."""

from abc import abstractmethod
from typing import ClassVar

import equinox as eqx
from jaxtyping import Array, Float, PRNGKeyArray

from ctmle.registry import SCHEDULES, Registry
from ctmle.settings import Part


class Looks(eqx.Module):
    """Sorted measurement times. With random looks, grid looks and random ones alternate: t0, r0, t1, r1, ..., tm."""

    times: Float[Array, " looks"]
    random: bool = eqx.field(static=True, default=False)

    @property
    def count(self) -> int:
        return self.times.shape[0]


class DecidedLooks(eqx.Module):
    """No times in advance: at each look the controller decides when the next one is."""


class Advice:
    """What an agent knows that a schedule may use; here, nothing. Methods compute only what is asked for."""

    def return_variance(self) -> float | None:
        """Estimate the variance of the return of the next policy; None if the agent has no estimate."""
        return None


class Schedule(Part):
    """Decides when to look: a pure function of the key, the horizon, the episode's number and the agent's advice."""

    choices: ClassVar[Registry] = SCHEDULES

    @abstractmethod
    def looks(
        self, key: PRNGKeyArray, horizon: float, episode: int = 0, advice: Advice | None = None
    ) -> Looks | DecidedLooks:
        """Return the looks of the episode of this number (0 for the initial data)."""

    def fits(self, horizon: float) -> None:
        """Raise ValueError if trajectories of this length are too short for the schedule."""

    @abstractmethod
    def longest_gap(self, horizon: float) -> float:
        """Return the longest time between two grid looks, at least in expectation: gaps are integrated accordingly."""
