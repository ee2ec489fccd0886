"""Fixed grids of looks, with or without the paper's one uniformly random look per gap."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ctmle.schedules.base import Looks, Schedule


class Equidistant(Schedule):
    """A look every `gap` seconds from 0 to the horizon (the last gap is shorter if they do not divide)."""

    gap: float = eqx.field(static=True)
    random_looks: bool = eqx.field(static=True, default=True)

    def __check_init__(self) -> None:
        check_gap(self.gap)

    def looks(self, key: PRNGKeyArray, horizon: float) -> Looks:
        check_gap(self.gap, horizon)
        inner = np.arange(0.0, horizon * (1 - 1e-9), self.gap)
        return with_random_looks(jnp.asarray([*inner, horizon], jnp.float32), self.random_looks, key)

    def longest_gap(self, horizon: float) -> float:
        return min(self.gap, horizon)


class Grid(Schedule):
    """Any grid of your own: strictly increasing times from 0; the last one ends the episode's looks."""

    times: tuple[float, ...] = eqx.field(static=True)
    random_looks: bool = eqx.field(static=True, default=True)

    def __check_init__(self) -> None:
        times = np.asarray(self.times)
        if times.ndim != 1 or times.size < 2 or not np.all(np.isfinite(times)):
            raise ValueError("a grid needs at least two finite times")
        if times[0] != 0 or np.any(np.diff(times) <= 0):
            raise ValueError("a grid's times must start at 0 and increase strictly")

    def looks(self, key: PRNGKeyArray, horizon: float) -> Looks:
        if self.times[-1] > horizon:
            raise ValueError(f"the grid's last look at {self.times[-1]} s is after the horizon {horizon} s")
        return with_random_looks(jnp.asarray(self.times, jnp.float32), self.random_looks, key)

    def longest_gap(self, horizon: float) -> float:
        return float(np.max(np.diff(self.times)))


def check_gap(gap: float, horizon: float = float("inf")) -> None:
    """Raises ValueError for a gap that no grid can have."""
    if not 0 < gap < float("inf"):
        raise ValueError(f"gap must be a positive number of seconds, not {gap}")
    if gap > horizon:
        raise ValueError(f"gap {gap} s is longer than the horizon {horizon} s: choose a shorter gap")


@eqx.filter_jit
def with_random_looks(grid: Float[Array, " grid"], random_looks: bool, key: PRNGKeyArray) -> Looks:
    """One extra look per gap at t_k + Unif(0, gap_k): the paper's Monte Carlo-type measurement (alg:alg3)."""
    if not random_looks:
        return Looks(grid)
    extra = grid[:-1] + jnp.diff(grid) * jax.random.uniform(key, (grid.shape[0] - 1,))
    pairs = jnp.stack([grid[:-1], extra], axis=1).reshape(-1)
    return Looks(jnp.concatenate([pairs, grid[-1:]]), random=True)
