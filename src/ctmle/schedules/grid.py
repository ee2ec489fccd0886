"""Fixed grids of looks, with or without the paper's one uniformly random look per gap."""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ctmle.schedules.base import Advice, Looks, Schedule
from ctmle.settings import Positive, Times


@dataclass(frozen=True)
class Equidistant(Schedule):
    """A look every `gap` seconds from 0 to the horizon (the last gap is shorter if they do not divide)."""

    gap: Positive = 0.125
    """[Delta] Seconds between two looks of the grid."""
    random_looks: bool = True
    """Take one more look per gap at a uniformly random time."""

    def looks(self, key: PRNGKeyArray, horizon: float, episode: int = 0, advice: Advice | None = None) -> Looks:
        self.fits(horizon)
        inner = np.arange(0.0, horizon * (1 - 1e-9), self.gap)
        return with_random_looks(jnp.asarray([*inner, horizon], jnp.float32), self.random_looks, key)

    def fits(self, horizon: float) -> None:
        check_gap(self.gap, horizon)

    def longest_gap(self, horizon: float) -> float:
        return min(self.gap, horizon)


@dataclass(frozen=True)
class Grid(Schedule):
    """Given times, the same in every episode: strictly increasing from 0; the last one ends the episode's looks."""

    times: Times = (0.0, 1.0)
    """Seconds of the grid's looks, from 0."""
    random_looks: bool = True
    """Take one more look per gap at a uniformly random time."""

    def check(self) -> None:
        if len(self.times) < 2:
            raise ValueError("times: a grid needs at least two times")
        if self.times[0] != 0 or np.any(np.diff(self.times) <= 0):
            raise ValueError("times: a grid's times must start at 0 and increase strictly")

    def looks(self, key: PRNGKeyArray, horizon: float, episode: int = 0, advice: Advice | None = None) -> Looks:
        self.fits(horizon)
        return with_random_looks(jnp.asarray(self.times, jnp.float32), self.random_looks, key)

    def fits(self, horizon: float) -> None:
        if self.times[-1] > horizon:
            raise ValueError(f"times: the grid's last look at {self.times[-1]:g} s is after the horizon {horizon:g} s")

    def longest_gap(self, horizon: float) -> float:
        return float(np.max(np.diff(self.times)))


def check_gap(gap: float, horizon: float) -> None:
    """Raise ValueError for a gap that no grid over this horizon can have."""
    if gap > horizon:
        raise ValueError(f"gap {gap:g} is longer than the horizon {horizon:g} s: choose a shorter gap")


@eqx.filter_jit
def with_random_looks(grid: Float[Array, " grid"], random_looks: bool, key: PRNGKeyArray) -> Looks:
    """Add one look per gap at t_k + Unif(0, gap_k): the paper's Monte Carlo-type measurement (alg:alg3)."""
    if not random_looks:
        return Looks(grid)
    extra = grid[:-1] + jnp.diff(grid) * jax.random.uniform(key, (grid.shape[0] - 1,))
    # Rounding may put a random look on a grid look: it keeps apart by as little as can be told.
    extra = jnp.clip(extra, jnp.nextafter(grid[:-1], grid[1:]), jnp.nextafter(grid[1:], grid[:-1]))
    pairs = jnp.stack([grid[:-1], extra], axis=1).reshape(-1)
    return Looks(jnp.concatenate([pairs, grid[-1:]]), random=True)
