"""When we look: measurement times of one episode."""

from abc import abstractmethod

import equinox as eqx
from jaxtyping import Array, Float, PRNGKeyArray


class Looks(eqx.Module):
    """Sorted measurement times. With random looks, grid looks and random ones alternate: t0, r0, t1, r1, ..., tm."""

    times: Float[Array, " looks"]
    random: bool = eqx.field(static=True, default=False)

    @property
    def count(self) -> int:
        return self.times.shape[0]


class DecidedLooks(eqx.Module):
    """No times in advance: at each look the policy decides when the next one is."""


class Schedule(eqx.Module):
    """Decides when to look. `looks` is a pure function of the key and the horizon."""

    @abstractmethod
    def looks(self, key: PRNGKeyArray, horizon: float) -> Looks: ...

    @abstractmethod
    def longest_gap(self, horizon: float) -> float:
        """The longest time between two grid looks, at least in expectation: it sets how finely gaps are integrated."""
