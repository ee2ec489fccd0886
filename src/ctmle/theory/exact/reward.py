"""A bounded reward whose value and total variance can be computed exactly under a linear SDE."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ctmle.models.gaussian import cholesky, solve_lower
from ctmle.theory.exact.linear import LinearLaw
from ctmle.theory.exact.precision import in_double
from ctmle.theory.quadrature import nodes_and_weights


class Bump(eqx.Module):
    """b(x) = exp(-sum_i ((x_i - goal_i) / width_i)^2 / 2) / T: at most 1/T, so that its integral is at most 1.

    A width of inf ignores a coordinate.
    """

    goal: Float[Array, " size"]
    width: Float[Array, " size"]
    horizon: float = eqx.field(static=True)

    def __call__(self, x: Float[Array, "*batch size"]) -> Float[Array, "*batch"]:
        return jnp.exp(-0.5 * jnp.sum(((x - self.goal) / self.width) ** 2, -1)) / self.horizon

    def expectation(
        self, mean: Float[Array, "*batch size"], covariance: Float[Array, "*batch size size"]
    ) -> Float[Array, "*batch"]:
        """E b(x) in closed form for normal x."""
        return _bump_mean((mean - self.goal) / self.width, _whiten(covariance, self.width)) / self.horizon

    def product_expectation(
        self,
        means: tuple[Float[Array, "*batch size"], Float[Array, "*batch size"]],
        covariances: tuple[Float[Array, "*batch size size"], Float[Array, "*batch size size"]],
        cross: Float[Array, "*batch size size"],
    ) -> Float[Array, "*batch"]:
        """E b(x) b(y) in closed form for (x, y) jointly normal with cov(x, y) = cross."""
        offset = jnp.concatenate([(mean - self.goal) / self.width for mean in means], -1)
        joint = jnp.block([[covariances[0], cross], [jnp.swapaxes(cross, -1, -2), covariances[1]]])
        return _bump_mean(offset, _whiten(joint, jnp.tile(self.width, 2))) / self.horizon**2


def _whiten(covariance: Float[Array, "*batch n n"], width: Float[Array, " n"]) -> Float[Array, "*batch n n"]:
    return covariance / (width[:, None] * width)


def _bump_mean(offset: Float[Array, "*batch n"], covariance: Float[Array, "*batch n n"]) -> Float[Array, "*batch"]:
    """E exp(-|z|^2 / 2) for z ~ N(offset, S): det(I + S)^-1/2 exp(-offset' (I + S)^-1 offset / 2)."""
    factor = cholesky(jnp.eye(offset.shape[-1], dtype=offset.dtype) + covariance)
    whitened = solve_lower(factor, offset)
    return jnp.exp(-0.5 * jnp.sum(whitened**2, -1)) / jnp.prod(jnp.diagonal(factor, axis1=-2, axis2=-1), -1)


@in_double
def values(laws: LinearLaw, reward: Bump, start: Float[Array, " size"]) -> Float[Array, "*laws"]:
    """Value R of every law of the table: E of the integral of b over [0, T] from `start`, by quadrature over time."""
    panels = 4 + int(np.ceil(laws.fastest() * reward.horizon))
    times, weights = nodes_and_weights(0.0, reward.horizon, panels)
    return _values(laws, reward, start, jnp.asarray(times), jnp.asarray(weights))


@in_double
def total_variances(laws: LinearLaw, reward: Bump, start: Float[Array, " size"]) -> Float[Array, "*laws"]:
    """Var^u (def:var) of the integral of b for every law: twice the integral over s < t of Cov(b(x_s), b(x_t)).

    The covariance has a kink at s = t, so the quadrature is over the triangle, not over the square.
    """
    panels = 4 + int(np.ceil(laws.fastest() * reward.horizon / 2))
    times, weights = nodes_and_weights(0.0, reward.horizon, panels, points=6)
    shares, share_weights = nodes_and_weights(0.0, 1.0, panels, points=6)
    nodes = (jnp.asarray(array) for array in (times, weights, shares, share_weights))
    return _total_variances(laws, reward, start, *nodes)


@eqx.filter_jit
def _values(laws: LinearLaw, reward: Bump, start: Array, times: Array, weights: Array) -> Array:
    def one(time: Array) -> Array:
        law = laws.transition(jnp.full(laws.push.shape[:-1], time))
        return reward.expectation(law.mean(start), law.covariance)

    return jnp.tensordot(weights, jax.lax.map(one, times, batch_size=64), 1)


@eqx.filter_jit
def _total_variances(
    laws: LinearLaw, reward: Bump, start: Array, times: Array, weights: Array, shares: Array, share_weights: Array
) -> Array:
    table = laws.push.shape[:-1]

    def covariance(time: Array, share: Array) -> Array:
        first = laws.transition(jnp.full(table, time * share))
        between = laws.transition(jnp.full(table, time * (1 - share)))
        mean = first.mean(start)
        later = between.mean(mean)
        cross = first.covariance @ jnp.swapaxes(between.flow, -1, -2)
        spread = between.flow @ cross + between.covariance
        both = reward.product_expectation((mean, later), (first.covariance, spread), cross)
        return both - reward.expectation(mean, first.covariance) * reward.expectation(later, spread)

    def inner(time: Array) -> Array:
        covariances = jax.vmap(lambda share: covariance(time, share))(shares)
        return 2 * time * jnp.tensordot(share_weights, covariances, 1)

    return jnp.maximum(jnp.tensordot(weights, jax.lax.map(inner, times), 1), 0.0)
