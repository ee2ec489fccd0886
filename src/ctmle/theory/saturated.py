"""A class with saturated policies, on a lattice."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ctmle.theory.classes import FiniteClass, Index, Point, Points, Scalar, Scalars
from ctmle.theory.lattice import LEAST_PROBABILITY, Lattice, lattice
from ctmle.theory.precision import in_double

EFFORT = 0.5
"""Weight of sparing control in the reward, beside 1 for being near the goal."""


class LatticeClass(FiniteClass):
    """Birth-death chains [policies, models]; the truth is one of the models."""

    chains: Lattice
    reward_table: Float[Array, "policies points"]
    values: Float[Array, "models policies"]
    variances: Float[Array, " policies"]
    truth: Index
    start: Point
    horizon: float = eqx.field(static=True)

    def log_likelihoods(self, policy: Index, x: Points, y: Points, gap: Scalars) -> Float[Array, " models"]:
        here, there = self.chains.place(x[:, 0]), self.chains.place(y[:, 0])
        weights, models = self.chains.half_log_weights, jnp.arange(self.models)
        at = jnp.ix_(here, models)
        from_here = self.chains.vectors[policy, at[1], at[0]]
        to_there = self.chains.vectors[policy, at[1], there[:, None]]
        decay = jnp.exp(self.chains.rates[policy][None] * gap[:, None, None])
        kernel = jnp.sum(from_here * decay * to_there, axis=-1)
        ratio = jnp.exp(weights[policy, at[1], there[:, None]] - weights[policy, at[1], at[0]])
        return jnp.sum(jnp.log(jnp.maximum(kernel * ratio, LEAST_PROBABILITY)), axis=0)

    def sample(self, key: PRNGKeyArray, policy: Index, x: Point, gap: Scalar) -> Point:
        row = self.chains[policy, self.truth].probabilities(self.chains.place(x[0]), gap)
        reached = jnp.cumsum(row) >= jax.random.uniform(key) * jnp.sum(row)
        return self.chains.points[jnp.argmax(reached)][None]

    def rewards(self, policy: Index, x: Points) -> Scalars:
        return self.reward_table[policy, self.chains.place(x[:, 0])]


@in_double
def saturated(noise: float, horizon: float = 4.0, points: int = 61) -> LatticeClass:
    """dx = (-c x + k u) dt + g dW on [-1, 2]; k in {0.5, 1, 2}, c in {0.2, 1}, g in noise * {1, 1.5}, truth (1, 1, 1).

    Policies are u = clip(K (1 - x), -1, 1) for five gains and the constants 0.5 and 1. The reward is for x near 1 and
    for sparing control, so that a weak motor asks for much control and a strong one for little.
    """
    if not 0.15 <= noise < np.inf:
        raise ValueError(
            f"noise must be at least 0.15 in the saturated class (its lattice is too coarse below), not {noise}"
        )
    grid = np.linspace(-1.0, 2.0, points)
    edges = (grid[1:] + grid[:-1]) / 2
    controls = [lambda x, gain=gain: np.clip(gain * (1 - x), -1, 1) for gain in (0.25, 0.5, 1.0, 2.0, 8.0)]
    controls += [lambda x, level=level: np.full_like(x, level) for level in (0.5, 1.0)]
    models = list(itertools.product((0.5, 1.0, 2.0), (0.2, 1.0), (1.0, 1.5)))
    drift = np.array([[-c * edges + k * control(edges) for k, c, _ in models] for control in controls])
    levels = np.broadcast_to(noise * np.array([level for *_, level in models]), drift.shape[:2])
    chains = lattice(grid, drift, levels)
    rewards = [_reward(grid, control(grid)) / horizon for control in controls]
    here, truth = int(np.argmin(np.abs(grid))), models.index((1.0, 1.0, 1.0))
    table = [[chains[u, i].value(rewards[u], here, horizon) for u in range(len(controls))] for i in range(len(models))]
    spread = [chains[u, truth].total_variance(rewards[u], here, horizon) for u in range(len(controls))]
    return LatticeClass(
        chains=chains,
        reward_table=jnp.asarray(np.array(rewards)),
        values=jnp.asarray(table),
        variances=jnp.asarray(spread),
        truth=jnp.asarray(truth),
        start=jnp.asarray(grid[here])[None],
        horizon=horizon,
    )


def _reward(x: Float[np.ndarray, " points"], u: Float[np.ndarray, " points"]) -> Float[np.ndarray, " points"]:
    """At most 1: near the goal, and without control."""
    return (np.exp(-0.5 * ((x - 1) / 0.3) ** 2) + EFFORT * (1 - u**2)) / (1 + EFFORT)
