"""Grids whose gaps are random, as in the ENODE line of work: the same number of looks in every episode."""

import math
from abc import abstractmethod
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ctmle.schedules.base import Advice, Looks, Schedule
from ctmle.schedules.grid import check_gap, with_random_looks
from ctmle.settings import Positive

LEAST_GAP = 1e-3
"""Shortest gap as a share of the mean: shorter ones would put two looks at the same instant once they are rounded."""


@dataclass(frozen=True)
class RandomGaps(Schedule):
    """As many gaps as an equidistant grid of this `gap` has, drawn at random and stretched to end at the horizon."""

    gap: Positive = 0.125
    """[Delta] Mean of the seconds between two looks of the grid."""
    random_looks: bool = True
    """Take one more look per gap at a uniformly random time."""

    @abstractmethod
    def draw(self, key: PRNGKeyArray, count: int) -> Float[Array, " gaps"]:
        """Draw independent gaps with mean 1."""

    def looks(self, key: PRNGKeyArray, horizon: float, episode: int = 0, advice: Advice | None = None) -> Looks:
        gap_key, look_key = jax.random.split(key)
        ends = jnp.cumsum(jnp.maximum(self.draw(gap_key, self.count(horizon)), LEAST_GAP))
        inner = ends[:-1] / ends[-1] * horizon
        grid = jnp.concatenate([jnp.zeros(1), inner, jnp.full(1, horizon, inner.dtype)])
        return with_random_looks(grid, self.random_looks, look_key)

    def fits(self, horizon: float) -> None:
        check_gap(self.gap, horizon)

    def count(self, horizon: float) -> int:
        """Return the number of gaps."""
        self.fits(horizon)
        return math.ceil(horizon * (1 - 1e-9) / self.gap)


@dataclass(frozen=True)
class UniformGaps(RandomGaps):
    """Gaps uniform between 0 and twice their mean."""

    def draw(self, key: PRNGKeyArray, count: int) -> Float[Array, " gaps"]:
        return jax.random.uniform(key, (count,), maxval=2.0)

    def longest_gap(self, horizon: float) -> float:
        return min(2 * self.gap, horizon)


@dataclass(frozen=True)
class ExponentialGaps(RandomGaps):
    """Exponential gaps: a Poisson process, given its number of looks."""

    def draw(self, key: PRNGKeyArray, count: int) -> Float[Array, " gaps"]:
        return jax.random.exponential(key, (count,))

    def longest_gap(self, horizon: float) -> float:
        """Return the expected longest gap: there is no bound but the horizon."""
        count = self.count(horizon)
        return float(horizon / count * np.sum(1 / np.arange(1, count + 1)))
