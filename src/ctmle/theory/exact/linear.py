"""Exact transition laws of linear SDEs  dx = (A x + b) dt + G dW  in one and two dimensions."""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ctmle.models.gaussian import Gaussian, cholesky

TERMS = 15
"""Taylor terms per step; steps are short enough that the remainder is below rounding."""


class Affine(eqx.Module):
    """Law of x(t + gap) given x(t) = x: N(flow x + shift, covariance)."""

    flow: Float[Array, "*batch size size"]
    shift: Float[Array, "*batch size"]
    covariance: Float[Array, "*batch size size"]

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

    def _drifted(self, flow: Float[Array, "*batch 2 2"], gap: Float[Array, "*batch"]) -> Float[Array, "*batch 2"]:
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

    drift: Float[Array, "*laws size size"]
    push: Float[Array, "*laws size"]
    noise: Float[Array, "*laws size size"]
    doublings: int = eqx.field(static=True)

    def transition(self, gap: Float[Array, "*gaps"]) -> Affine:
        h = (gap / 2**self.doublings)[..., None, None]
        a = self.drift * h
        noise = _product(self.noise, _transposed(self.noise)) * h
        eye = jnp.broadcast_to(jnp.eye(self.size, dtype=a.dtype), a.shape)

        def add_term(n: Array, sums: tuple[Array, ...]) -> tuple[Array, ...]:
            power, spread, flow, integral, covariance = sums
            power, product = _product(a, power) / n, _product(a, spread)
            spread = (product + _transposed(product)) / (n + 1)
            return power, spread, flow + power, integral + power / (n + 1), covariance + spread

        def double(_: Array, law: tuple[Array, ...]) -> tuple[Array, ...]:
            flow, shift, covariance = law
            return _product(flow, flow), shift + _applied(flow, shift), covariance + _congruent(flow, covariance)

        *_, flow, integral, covariance = jax.lax.fori_loop(1, TERMS + 1, add_term, (eye, noise, eye, eye, noise))
        law = (flow, _applied(integral * h, self.push), covariance)
        return Affine(*jax.lax.fori_loop(0, self.doublings, double, law))

    def fastest(self) -> float:
        return float(jnp.max(jnp.linalg.norm(self.drift, axis=(-2, -1))))


def matrix_law(
    drift: Float[Array, "*laws size size"],
    push: Float[Array, "*laws size"],
    noise: Float[Array, "*laws size size"],
    longest_gap: float,
) -> MatrixLaw:
    """Choose enough doublings to keep the Taylor step short for every law and every gap up to the longest."""
    largest = float(np.max(np.linalg.norm(np.asarray(drift), axis=(-2, -1))))
    doublings = max(0, int(np.ceil(np.log2(max(4 * largest * longest_gap, 1.0)))))
    return MatrixLaw(drift, push, noise, doublings)


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


def _congruent(a: Float[Array, "*a size size"], b: Float[Array, "*b size size"]) -> Float[Array, "*c size size"]:
    return _product(_product(a, b), _transposed(a))


def _applied(a: Float[Array, "*a size size"], x: Float[Array, "*x size"]) -> Float[Array, "*b size"]:
    return jnp.einsum("...ij,...j->...i", a, x)


def _transposed(a: Float[Array, "*a size size"]) -> Float[Array, "*a size size"]:
    return jnp.swapaxes(a, -1, -2)
