"""Grids whose gaps are random, as in the ENODE line of work: the same number of looks in every episode."""

import math
from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ctmle.schedules.base import Looks, Schedule
from ctmle.schedules.grid import check_gap, with_random_looks


class RandomGaps(Schedule):
    """As many gaps as an equidistant grid of this `gap` has, drawn at random and stretched to end at the horizon."""

    gap: eqx.AbstractVar[float]
    random_looks: eqx.AbstractVar[bool]

    @abstractmethod
    def draw(self, key: PRNGKeyArray, count: int) -> Float[Array, " gaps"]:
        """Independent gaps with mean 1."""

    def __check_init__(self) -> None:
        check_gap(self.gap)

    def looks(self, key: PRNGKeyArray, horizon: float) -> Looks:
        gap_key, look_key = jax.random.split(key)
        ends = jnp.cumsum(self.draw(gap_key, self.count(horizon)))
        inner = ends[:-1] / ends[-1] * horizon
        grid = jnp.concatenate([jnp.zeros(1), inner, jnp.full(1, horizon, inner.dtype)])
        return with_random_looks(grid, self.random_looks, look_key)

    def count(self, horizon: float) -> int:
        """How many gaps there are."""
        check_gap(self.gap, horizon)
        return math.ceil(horizon * (1 - 1e-9) / self.gap)


class UniformGaps(RandomGaps):
    """Gaps uniform between 0 and twice their mean."""

    gap: float = eqx.field(static=True)
    random_looks: bool = eqx.field(static=True, default=True)

    def draw(self, key: PRNGKeyArray, count: int) -> Float[Array, " gaps"]:
        return jax.random.uniform(key, (count,), maxval=2.0)

    def longest_gap(self, horizon: float) -> float:
        return min(2 * self.gap, horizon)


class ExponentialGaps(RandomGaps):
    """Exponential gaps: a Poisson process, given its number of looks."""

    gap: float = eqx.field(static=True)
    random_looks: bool = eqx.field(static=True, default=True)

    def draw(self, key: PRNGKeyArray, count: int) -> Float[Array, " gaps"]:
        return jax.random.exponential(key, (count,))

    def longest_gap(self, horizon: float) -> float:
        """In expectation: there is no bound but the horizon."""
        count = self.count(horizon)
        return float(horizon / count * np.sum(1 / np.arange(1, count + 1)))
