"""A multivariate normal over a few coordinates, given by its mean and the Cholesky factor of its covariance."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

UNROLLED_UP_TO = 6
"""Up to this size the factorisation is unrolled into elementwise operations, which vectorise over a batch."""

LEAST_SHARE = 1e-5
"""A coordinate keeps at least this share of its variance given the others: rounding could leave less than none."""


class Gaussian(eqx.Module):
    """Residuals are passed in, not points, so that angles can be wrapped by whoever knows about them."""

    mean: Float[Array, "*batch size"]
    factor: Float[Array, "*batch size size"]

    def log_prob(self, residual: Float[Array, "*batch size"]) -> Float[Array, "*batch"]:
        whitened = solve_lower(self.factor, residual)
        log_diagonal = jnp.log(jnp.diagonal(self.factor, axis1=-2, axis2=-1))
        constant = 0.5 * self.mean.shape[-1] * np.log(2 * np.pi)
        return -0.5 * jnp.sum(whitened**2, -1) - jnp.sum(log_diagonal, -1) - constant

    def score(self, residual: Float[Array, "*batch size"]) -> Float[Array, "*batch size"]:
        """The gradient of the log-density at mean + residual: -Sigma^-1 residual."""
        return -solve_upper(self.factor, solve_lower(self.factor, residual))

    def precision_trace(self) -> Float[Array, "*batch"]:
        """trace(Sigma^-1), the sum of squares of the inverse factor."""
        size = self.mean.shape[-1]
        columns = jnp.broadcast_to(jnp.eye(size, dtype=self.factor.dtype), self.factor.shape)
        inverse = jnp.stack([solve_lower(self.factor, columns[..., i]) for i in range(size)], axis=-1)
        return jnp.sum(inverse**2, axis=(-2, -1))

    def sample(self, key: PRNGKeyArray) -> Float[Array, "*batch size"]:
        noise = jax.random.normal(key, self.mean.shape)
        return self.mean + jnp.einsum("...ij,...j->...i", self.factor, noise)

    def covariance(self) -> Float[Array, "*batch size size"]:
        return self.factor @ jnp.swapaxes(self.factor, -1, -2)


def marginal(
    law: Gaussian, residual: Float[Array, "*batch size"], missing: Bool[Array, "*batch size"]
) -> tuple[Gaussian, Float[Array, "*batch size"]]:
    """Return the law of the cells that are not missing, and their residuals.

    A missing cell becomes independent of the others, with residual 0 and variance 1 / (2 pi): its log-density is 0.
    """
    covariance = law.factor @ jnp.swapaxes(law.factor, -1, -2)
    apart = missing[..., :, None] | missing[..., None, :]
    alone = jnp.where(missing, 1 / (2 * jnp.pi), 0.0)[..., None] * jnp.eye(residual.shape[-1], dtype=residual.dtype)
    factor = cholesky(jnp.where(apart, alone, covariance))
    return Gaussian(law.mean, factor), jnp.where(missing, 0.0, residual)


def cholesky(matrix: Float[Array, "*batch size size"]) -> Float[Array, "*batch size size"]:
    size = matrix.shape[-1]
    if size > UNROLLED_UP_TO:
        return jnp.linalg.cholesky(matrix)
    zero = jnp.zeros(matrix.shape[:-2], matrix.dtype)
    lower = [[zero] * size for _ in range(size)]
    for i in range(size):
        for j in range(i + 1):
            rest = matrix[..., i, j] - sum((lower[i][k] * lower[j][k] for k in range(j)), start=zero)
            lower[i][j] = jnp.sqrt(jnp.maximum(rest, LEAST_SHARE * matrix[..., i, i])) if i == j else rest / lower[j][j]
    return jnp.stack([jnp.stack(row, axis=-1) for row in lower], axis=-2)


def solve_lower(
    factor: Float[Array, "*batch size size"], b: Float[Array, "*batch size"]
) -> Float[Array, "*batch size"]:
    """factor^-1 b by forward substitution."""
    if b.shape[-1] > UNROLLED_UP_TO:
        return jax.scipy.linalg.solve_triangular(factor, b[..., None], lower=True)[..., 0]
    solution: list[Array] = []
    for i in range(b.shape[-1]):
        known = sum((factor[..., i, k] * solution[k] for k in range(i)), start=jnp.zeros_like(b[..., i]))
        solution.append((b[..., i] - known) / factor[..., i, i])
    return jnp.stack(solution, axis=-1)


def solve_upper(
    factor: Float[Array, "*batch size size"], b: Float[Array, "*batch size"]
) -> Float[Array, "*batch size"]:
    """factor^-T b by backward substitution."""
    reversed_factor = jnp.swapaxes(factor, -1, -2)[..., ::-1, ::-1]
    return solve_lower(reversed_factor, b[..., ::-1])[..., ::-1]
