"""One-dimensional diffusions with any drift on a lattice, and the class of saturated policies.

A saturated policy makes the closed loop piecewise linear, and its transition law has no closed form. On a lattice of
spacing h with reflecting ends the diffusion becomes a birth-death chain with rates

    up from i:  g^2 / (2 h^2) exp(f(x_i + h/2) h / g^2),    down from i + 1:  g^2 / (2 h^2) exp(-f(x_i + h/2) h / g^2)

The chain converges to the diffusion as h^2 and is reversible, so one symmetric eigendecomposition gives its transition
law over any gap, its value and its total variance exactly.
"""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray
from scipy.special import exprel

from ctmle.theory.exact.classes import FiniteClass, Index, Point, Points, Scalar, Scalars
from ctmle.training.double import in_double

LEAST_PROBABILITY = 1e-13
"""Lower limit of probabilities, which are rounding errors below it. A wrong model loses at most 30 nats per look."""

EFFORT = 0.5
"""Weight in the reward of using little control; being near the goal has weight 1."""


class Lattice(eqx.Module):
    """Symmetric spectral decomposition of chains on shared points; leading axes index the chains."""

    points: Float[Array, " points"]
    rates: Float[Array, "*chains points"]
    """Eigenvalues, at most 0."""
    vectors: Float[Array, "*chains points points"]
    """Orthonormal eigenvectors in columns."""
    half_log_weights: Float[Array, "*chains points"]
    """Half the logarithm of the stationary weights."""

    def place(self, x: Float[Array, "*batch"]) -> Int[Array, "*batch"]:
        """Index of the nearest point."""
        return jnp.round((x - self.points[0]) / (self.points[1] - self.points[0])).astype(int)

    def __getitem__(self, index: int | tuple | Int[Array, "..."]) -> "Lattice":
        """Chains at an index into the leading axes."""
        return Lattice(self.points, self.rates[index], self.vectors[index], self.half_log_weights[index])

    def probabilities(self, here: Int[Array, ""], gap: Float[Array, ""]) -> Float[Array, " points"]:
        """P(x(t + gap) = . | x(t) = here) of one chain."""
        spectrum = self.vectors[here] * jnp.exp(self.rates * gap)
        row = jnp.exp(self.half_log_weights - self.half_log_weights[here]) * (self.vectors @ spectrum)
        return jnp.maximum(row, 0.0)

    def mean_and_variance(self, reward: Float[np.ndarray, " points"], here: int, horizon: float) -> tuple[float, float]:
        """Mean and variance of the integral of reward(x(t)) over [0, T] for one chain that starts `here`.

        Every mode is integrated in closed form. The second moment is 2 E of the integral of b_s b_t over s < t.
        """
        rates, vectors = np.asarray(self.rates), np.asarray(self.vectors)
        weights = np.exp(np.asarray(self.half_log_weights))
        start, modes = vectors[here] / weights[here], (weights * reward) @ vectors
        mean = float(np.sum(start * modes * _integral(rates, horizon)))
        couplings = vectors.T @ (reward[:, None] * vectors)
        second = 2 * float(start @ (couplings * _double_integral(rates, horizon)) @ modes)
        return mean, max(0.0, second - mean**2)


def lattice(
    points: Float[np.ndarray, " points"], drift: Float[np.ndarray, "*chains edges"], noise: Float[np.ndarray, "*chains"]
) -> Lattice:
    """Build chains from their drift at the midpoints between points and one noise level per chain."""
    size, spacing = len(points), points[1] - points[0]
    lean = drift * spacing / noise[..., None] ** 2
    none = np.zeros((*lean.shape[:-1], 1))
    log_weights = np.concatenate([none, 2 * np.cumsum(lean, axis=-1)], axis=-1)
    log_weights -= log_weights.max(axis=-1, keepdims=True)
    base = noise[..., None] ** 2 / (2 * spacing**2)
    leave = np.concatenate([base * np.exp(lean), none], -1) + np.concatenate([none, base * np.exp(-lean)], -1)
    symmetric = base[..., None] * (np.eye(size, k=1) + np.eye(size, k=-1)) - leave[..., None] * np.eye(size)
    rates, vectors = np.linalg.eigh(symmetric)
    tables = (points, np.minimum(rates, 0.0), vectors, log_weights / 2)
    return Lattice(*(jnp.asarray(table, float) for table in tables))


def _integral(rates: Float[np.ndarray, "*batch"], horizon: float) -> Float[np.ndarray, "*batch"]:
    """Integral of exp(rate t) over [0, T]."""
    return horizon * exprel(rates * horizon)


def _double_integral(rates: Float[np.ndarray, " n"], horizon: float) -> Float[np.ndarray, "n n"]:
    """Integral of exp(a s + b (t - s)) over 0 < s < t < T for all pairs (a, b).

    It is the divided difference of `_integral`, and its derivative, the integral of t exp(rate t), where a = b.
    """
    a, b = rates[:, None], rates[None, :]
    single = _integral(rates, horizon)
    close = np.abs(a - b) * horizon < 1e-5
    apart = (single[:, None] - single[None, :]) / np.where(close, 1.0, a - b)
    z = (a + b) / 2 * horizon
    small = np.abs(z) < 1e-4
    safe = np.where(small, 1.0, z)
    slope = np.where(small, 0.5 + z / 3 + z**2 / 8, (np.exp(safe) * (safe - 1) + 1) / safe**2)
    return np.where(close, horizon**2 * slope, apart)


class LatticeClass(FiniteClass):
    """Class of birth-death chains [policies, models]."""

    chains: Lattice
    reward_table: Float[Array, "policies points"]

    def log_likelihoods(self, policy: Index, x: Points, y: Points, gap: Scalars) -> Float[Array, " models"]:
        here, there = self.chains.place(x[:, 0]), self.chains.place(y[:, 0])
        vectors, weights = self.chains.vectors, self.chains.half_log_weights
        decay = jnp.exp(self.chains.rates[policy] * gap[:, None, None])
        kernel = jnp.sum(vectors[policy, :, here] * decay * vectors[policy, :, there], axis=-1)
        ratio = jnp.exp(weights[policy, :, there] - weights[policy, :, here])
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

    Policies are u = clip(K (1 - x), -1, 1) for five gains and the constants 0.5 and 1. The reward is high for x near 1
    and little control, so a weak motor needs much control and a strong one little.
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
    rewards = np.array([_reward(grid, control(grid)) / horizon for control in controls])
    here, truth = int(np.argmin(np.abs(grid))), models.index((1.0, 1.0, 1.0))
    moments = np.array([
        [chains[u, i].mean_and_variance(rewards[u], here, horizon) for u in range(len(controls))]
        for i in range(len(models))
    ])  # fmt: skip
    return LatticeClass(
        chains=chains,
        reward_table=jnp.asarray(rewards),
        values=jnp.asarray(moments[..., 0]),
        variances=jnp.asarray(moments[truth, :, 1]),
        truth=jnp.asarray(truth),
        start=jnp.asarray(grid[here])[None],
        horizon=horizon,
    )


def _reward(x: Float[np.ndarray, " points"], u: Float[np.ndarray, " points"]) -> Float[np.ndarray, " points"]:
    """Reward of at most 1, largest at the goal without control."""
    return (np.exp(-0.5 * ((x - 1) / 0.3) ** 2) + EFFORT * (1 - u**2)) / (1 + EFFORT)
