"""One-dimensional diffusions with any drift, exactly on a lattice: what saturated policies need.

A saturated policy makes the closed loop piecewise linear, and its transition law has no closed form. On a lattice of
spacing h with reflecting ends the diffusion becomes a birth-death chain with rates

    up from i:  g^2 / (2 h^2) exp(f(x_i + h/2) h / g^2),    down from i + 1:  g^2 / (2 h^2) exp(-f(x_i + h/2) h / g^2)

which converges to it as h^2 and is reversible, so that its transition law over *any* gap, its value and its total
variance are exact from one symmetric eigendecomposition.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

LEAST_PROBABILITY = 1e-13
"""Below this a probability is rounding; a wrong model then loses at most 30 nats per look, not more."""


class Lattice(eqx.Module):
    """Chains on shared points, as their symmetric spectral decomposition; leading axes number the chains."""

    points: Float[Array, " points"]
    rates: Float[Array, "*chains points"]
    """Eigenvalues, at most 0."""
    vectors: Float[Array, "*chains points points"]
    """Orthonormal eigenvectors in columns."""
    half_log_weights: Float[Array, "*chains points"]
    """Half the logarithm of the stationary weights."""

    def place(self, x: Float[Array, "*batch"]) -> Int[Array, "*batch"]:
        """The number of a point."""
        return jnp.round((x - self.points[0]) / (self.points[1] - self.points[0])).astype(int)

    def __getitem__(self, index: int | tuple | Int[Array, "..."]) -> "Lattice":
        """The chains at an index into the leading axes."""
        chosen = (self.rates[index], self.vectors[index], self.half_log_weights[index])
        return Lattice(self.points, *chosen)

    def probabilities(self, here: Int[Array, ""], gap: Float[Array, ""]) -> Float[Array, " points"]:
        """P(x(t + gap) = . | x(t) = here) of one chain."""
        spectrum = self.vectors[here] * jnp.exp(self.rates * gap)
        row = jnp.exp(self.half_log_weights - self.half_log_weights[here]) * (self.vectors @ spectrum)
        return jnp.maximum(row, 0.0)

    def value(self, reward: Float[np.ndarray, " points"], here: int, horizon: float) -> float:
        """E of the integral of reward(x(t)) over [0, T], of one chain: every mode is integrated in closed form."""
        modes, start = self._modes(reward), self._start(here)
        return float(np.sum(start * modes * _integral(np.asarray(self.rates), horizon)))

    def total_variance(self, reward: Float[np.ndarray, " points"], here: int, horizon: float) -> float:
        """Var of that integral, of one chain: 2 E of the integral of b_s b_t over s < t, less the mean squared."""
        rates, vectors = np.asarray(self.rates), np.asarray(self.vectors)
        couplings = vectors.T @ (reward[:, None] * vectors)
        second = self._start(here) @ (couplings * _double_integral(rates, horizon)) @ self._modes(reward)
        return max(0.0, 2 * float(second) - self.value(reward, here, horizon) ** 2)

    def _modes(self, reward: Float[np.ndarray, " points"]) -> Float[np.ndarray, " points"]:
        return (np.exp(np.asarray(self.half_log_weights)) * reward) @ np.asarray(self.vectors)

    def _start(self, here: int) -> Float[np.ndarray, " points"]:
        return np.asarray(self.vectors)[here] / np.exp(np.asarray(self.half_log_weights)[here])


def lattice(
    points: Float[np.ndarray, " points"], drift: Float[np.ndarray, "*chains edges"], noise: np.ndarray
) -> Lattice:
    """Chains from their drift at the middles between points, and their noise (one per chain)."""
    spacing = points[1] - points[0]
    lean = drift * spacing / noise[..., None] ** 2
    log_weights = np.concatenate([np.zeros((*lean.shape[:-1], 1)), 2 * np.cumsum(lean, axis=-1)], axis=-1)
    log_weights -= log_weights.max(axis=-1, keepdims=True)
    base = noise[..., None] ** 2 / (2 * spacing**2)
    up, down = base * np.exp(lean), base * np.exp(-lean)
    nothing = np.zeros((*lean.shape[:-1], 1))
    leave = np.concatenate([up, nothing], -1) + np.concatenate([nothing, down], -1)
    size = len(points)
    symmetric = np.zeros((*lean.shape[:-1], size, size))
    symmetric[..., np.arange(size), np.arange(size)] = -leave
    symmetric[..., np.arange(size - 1), np.arange(1, size)] = np.broadcast_to(base, lean.shape)
    symmetric[..., np.arange(1, size), np.arange(size - 1)] = np.broadcast_to(base, lean.shape)
    rates, vectors = np.linalg.eigh(symmetric)
    tables = (points, np.minimum(rates, 0.0), vectors, log_weights / 2)
    return Lattice(*(jnp.asarray(table, float) for table in tables))


def _integral(rates: Float[np.ndarray, "*batch"], horizon: float) -> Float[np.ndarray, "*batch"]:
    """The integral of exp(rate t) over [0, T]."""
    z = rates * horizon
    small = np.abs(z) < 1e-8
    return horizon * np.where(small, 1 + z / 2, np.expm1(z) / np.where(small, 1.0, z))


def _double_integral(rates: Float[np.ndarray, " n"], horizon: float) -> Float[np.ndarray, "n n"]:
    """The integral of exp(a s + b (t - s)) over 0 < s < t < T, for all pairs (a, b)."""
    a, b = rates[:, None], rates[None, :]
    single = _integral(rates, horizon)
    close = np.abs(a - b) * horizon < 1e-5
    apart = (single[:, None] - single[None, :]) / np.where(close, 1.0, a - b)
    return np.where(close, _slope((a + b) / 2, horizon), apart)


def _slope(rate: Float[np.ndarray, "n n"], horizon: float) -> Float[np.ndarray, "n n"]:
    """The derivative of `_integral` by the rate: the integral of t exp(rate t)."""
    z = rate * horizon
    small = np.abs(z) < 1e-4
    safe = np.where(small, 1.0, z)
    return horizon**2 * np.where(small, 0.5 + z / 3 + z**2 / 8, (np.exp(safe) * (safe - 1) + 1) / safe**2)
