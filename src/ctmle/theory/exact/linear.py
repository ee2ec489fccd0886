"""Exact transition laws of linear SDEs  dx = (A x + b) dt + G dW, and a reward with an exact value and variance.

Everything is computed in double precision, whatever the precision of the rest of the program.
"""

from abc import abstractmethod
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ctmle.models.gaussian import Gaussian, cholesky, solve_lower
from ctmle.theory.eluder import nodes_and_weights
from ctmle.training.double import in_double

Vector = Float[Array, "*batch size"]
Matrix = Float[Array, "*batch size size"]

TERMS = 15
"""Taylor terms per step; steps are short enough that the remainder is below rounding."""


class Affine(eqx.Module):
    """Law of x(t + gap) given x(t) = x: N(flow x + shift, covariance)."""

    flow: Matrix
    shift: Vector
    covariance: Matrix

    def mean(self, x: Float[Array, "*start size"]) -> Float[Array, "*batch size"]:
        return _applied(self.flow, x) + self.shift

    def __call__(self, x: Float[Array, "*start size"]) -> Gaussian:
        return Gaussian(self.mean(x), cholesky(self.covariance))


class LinearLaw(eqx.Module):
    """Table of linear SDEs; leading axes index the table."""

    push: eqx.AbstractVar[Float[Array, "*laws size"]]

    @abstractmethod
    def transition(self, gap: Float[Array, "*gaps"]) -> Affine:
        """Transition law over `gap`, which broadcasts against the table."""

    @abstractmethod
    def fastest(self) -> float:
        """Largest rate (1/s) in the table, which decides how fine a quadrature over time has to be."""

    @property
    def size(self) -> int:
        return self.push.shape[-1]

    def __getitem__(self, index: Int[Array, "..."] | int | tuple) -> "LinearLaw":
        """Laws at an index into the leading axes."""
        return jax.tree.map(lambda table: table[index], self)


class Spiral(LinearLaw):
    """Closed form for dz = ((-decay + i turn) z + push) dt + noise dW, real (size 1, no turn) or complex (size 2)."""

    decay: Float[Array, "*laws"]
    turn: Float[Array, "*laws"]
    push: Float[Array, "*laws size"]
    noise: Float[Array, "*laws"]

    def transition(self, gap: Float[Array, "*gaps"]) -> Affine:
        variance = self.noise**2 * gap * _growth(-2 * self.decay * gap)
        covariance = variance[..., None, None] * jnp.eye(self.size, dtype=variance.dtype)
        if self.size == 1:
            flow = jnp.exp(-self.decay * gap)[..., None, None]
            return Affine(flow, (gap * _growth(-self.decay * gap))[..., None] * self.push, covariance)
        damping, angle = jnp.exp(-self.decay * gap), self.turn * gap
        flow = _complex_as_matrix(damping * jnp.cos(angle), damping * jnp.sin(angle))
        return Affine(flow, self._drifted(flow, gap), covariance)

    def _drifted(self, flow: Float[Array, "*batch 2 2"], gap: Float[Array, "*gaps"]) -> Float[Array, "*batch 2"]:
        """A^-1 (flow - I) push, or its limit where A vanishes."""
        rate = self.decay**2 + self.turn**2
        still = rate * gap**2 < 1e-12
        inverse = _complex_as_matrix(-self.decay, -self.turn) / jnp.where(still, 1.0, rate)[..., None, None]
        moved = _product(inverse, flow - jnp.eye(2, dtype=flow.dtype))
        moved = jnp.where(still[..., None, None], gap[..., None, None] * jnp.eye(2, dtype=flow.dtype), moved)
        return _applied(moved, self.push)

    def fastest(self) -> float:
        return float(jnp.max(jnp.abs(self.decay) + jnp.abs(self.turn)))


class MatrixLaw(LinearLaw):
    """Linear SDEs with any drift and diffusion matrix, by the matrix exponential and the covariance integral.

    The law over gap / 2^doublings comes from a Taylor series; each doubling then applies the law twice. Small matrices
    are multiplied elementwise over the batch, so a random gap per look is cheap. Build with `matrix_law`.
    """

    drift: Matrix
    push: Vector
    noise: Matrix
    doublings: int = eqx.field(static=True)

    def transition(self, gap: Float[Array, "*gaps"]) -> Affine:
        h = (gap / 2**self.doublings)[..., None, None]
        a = self.drift * h
        noise = _product(self.noise, self.noise.mT) * h
        eye = jnp.broadcast_to(jnp.eye(self.size, dtype=a.dtype), a.shape)

        def add_term(n: Array, sums: tuple[Array, ...]) -> tuple[Array, ...]:
            power, spread, flow, integral, covariance = sums
            power, product = _product(a, power) / n, _product(a, spread)
            spread = (product + product.mT) / (n + 1)
            return power, spread, flow + power, integral + power / (n + 1), covariance + spread

        def double(_: Array, law: tuple[Array, ...]) -> tuple[Array, ...]:
            flow, shift, covariance = law
            moved = _product(_product(flow, covariance), flow.mT)
            return _product(flow, flow), shift + _applied(flow, shift), covariance + moved

        *_, flow, integral, covariance = jax.lax.fori_loop(1, TERMS + 1, add_term, (eye, noise, eye, eye, noise))
        law = (flow, _applied(integral * h, self.push), covariance)
        return Affine(*jax.lax.fori_loop(0, self.doublings, double, law))

    def fastest(self) -> float:
        return float(jnp.max(jnp.linalg.norm(self.drift, axis=(-2, -1))))


def matrix_law(drift: Matrix, push: Vector, noise: Matrix, longest_gap: float) -> MatrixLaw:
    """Choose enough doublings to keep the Taylor step short for every law and every gap up to the longest."""
    largest = float(np.max(np.linalg.norm(np.asarray(drift), axis=(-2, -1))))
    doublings = max(0, int(np.ceil(np.log2(max(4 * largest * longest_gap, 1.0)))))
    return MatrixLaw(drift, push, noise, doublings)


class Bump(eqx.Module):
    """b(x) = exp(-sum_i ((x_i - goal_i) / width_i)^2 / 2) / T: at most 1/T, so that its integral is at most 1.

    A width of inf ignores a coordinate.
    """

    goal: Float[Array, " size"]
    width: Float[Array, " size"]
    horizon: float = eqx.field(static=True)

    def __call__(self, x: Float[Array, "*batch size"]) -> Float[Array, "*batch"]:
        return jnp.exp(-0.5 * jnp.sum(((x - self.goal) / self.width) ** 2, -1)) / self.horizon

    def expectation(self, mean: Vector, covariance: Matrix) -> Float[Array, "*batch"]:
        """E b(x) in closed form for normal x."""
        return _bump_mean(mean - self.goal, covariance, self.width) / self.horizon

    def product_expectation(
        self, means: tuple[Vector, Vector], covariances: tuple[Matrix, Matrix], cross: Matrix
    ) -> Float[Array, "*batch"]:
        """E b(x) b(y) in closed form for (x, y) jointly normal with cov(x, y) = cross."""
        offset = jnp.concatenate([mean - self.goal for mean in means], -1)
        joint = jnp.block([[covariances[0], cross], [cross.mT, covariances[1]]])
        return _bump_mean(offset, joint, jnp.tile(self.width, 2)) / self.horizon**2


def _bump_mean(
    offset: Float[Array, "*batch n"], covariance: Float[Array, "*batch n n"], width: Float[Array, " n"]
) -> Float[Array, "*batch"]:
    """E exp(-|z / width|^2 / 2) for z ~ N(offset, C): det(I + S)^-1/2 exp(-w' (I + S)^-1 w / 2).

    w = offset / width and S = C / (width width') are the mean and the covariance of z / width.
    """
    scaled = covariance / (width[:, None] * width)
    factor = cholesky(jnp.eye(offset.shape[-1], dtype=offset.dtype) + scaled)
    whitened = solve_lower(factor, offset / width)
    return jnp.exp(-0.5 * jnp.sum(whitened**2, -1)) / jnp.prod(jnp.diagonal(factor, axis1=-2, axis2=-1), -1)


@in_double
def values(laws: LinearLaw, reward: Bump, start: Float[Array, " size"]) -> Float[Array, "*laws"]:
    """Value R of every law of the table: E of the integral of b over [0, T] from `start`, by quadrature over time."""
    panels = 4 + int(np.ceil(laws.fastest() * reward.horizon))
    times, weights = nodes_and_weights(0.0, reward.horizon, panels)
    return _integral(eqx.Partial(_mean_reward, laws, reward, start), jnp.asarray(times), jnp.asarray(weights), 64)


@in_double
def total_variances(laws: LinearLaw, reward: Bump, start: Float[Array, " size"]) -> Float[Array, "*laws"]:
    """Var^u (def:var) of the integral of b for every law: twice the integral over s < t of Cov(b(x_s), b(x_t)).

    The covariance has a kink at s = t, so the quadrature is over the triangle, not over the square.
    """
    panels = 4 + int(np.ceil(laws.fastest() * reward.horizon / 2))
    times, weights = nodes_and_weights(0.0, reward.horizon, panels, points=6)
    shares, share_weights = nodes_and_weights(0.0, 1.0, panels, points=6)
    pairs = np.stack([np.outer(times, shares), np.outer(times, 1 - shares)], -1).reshape(-1, 2)
    pair_weights = 2 * np.outer(times * weights, share_weights).ravel()
    integrand = eqx.Partial(_reward_covariance, laws, reward, start)
    return jnp.maximum(_integral(integrand, jnp.asarray(pairs), jnp.asarray(pair_weights), len(shares)), 0.0)


@eqx.filter_jit
def _integral(
    integrand: Callable[[Array], Array], nodes: Float[Array, "nodes ..."], weights: Float[Array, " nodes"], batch: int
) -> Float[Array, "..."]:
    """Weighted sum of the integrand over the nodes of a quadrature, `batch` nodes at a time."""
    return jnp.tensordot(weights, jax.lax.map(integrand, nodes, batch_size=batch), 1)


def _mean_reward(laws: LinearLaw, reward: Bump, start: Float[Array, " size"], time: Float[Array, ""]) -> Array:
    """E b(x_t) for every law."""
    law = laws.transition(time)
    return reward.expectation(law.mean(start), law.covariance)


def _reward_covariance(laws: LinearLaw, reward: Bump, start: Float[Array, " size"], gaps: Float[Array, "2"]) -> Array:
    """Cov(b(x_s), b(x_t)) for every law; `gaps` are s and t - s."""
    first, between = laws.transition(gaps[0]), laws.transition(gaps[1])
    mean = first.mean(start)
    later = between.mean(mean)
    cross = first.covariance @ between.flow.mT
    spread = between.flow @ cross + between.covariance
    both = reward.product_expectation((mean, later), (first.covariance, spread), cross)
    return both - reward.expectation(mean, first.covariance) * reward.expectation(later, spread)


def _growth(z: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """(exp(z) - 1) / z, or its limit at 0."""
    small = jnp.abs(z) < 1e-8
    safe = jnp.where(small, 1.0, z)
    return jnp.where(small, 1 + z / 2, jnp.expm1(safe) / safe)


def _complex_as_matrix(real: Float[Array, "*batch"], imaginary: Float[Array, "*batch"]) -> Float[Array, "*batch 2 2"]:
    """Matrix of the multiplication by a complex number."""
    return jnp.stack([jnp.stack([real, -imaginary], -1), jnp.stack([imaginary, real], -1)], -2)


def _product(a: Float[Array, "*a size size"], b: Float[Array, "*b size size"]) -> Float[Array, "*c size size"]:
    return jnp.sum(a[..., :, :, None] * b[..., None, :, :], axis=-2)


def _applied(a: Float[Array, "*a size size"], x: Float[Array, "*x size"]) -> Float[Array, "*b size"]:
    return jnp.einsum("...ij,...j->...i", a, x)
