"""Linear SDEs over a short time, for batches of small matrices: matrix exponentials and the noise that they carry."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ctmle.models.integrate import Points, Times

DOUBLINGS = 6
"""Doublings of a matrix exponential: time constants down to a twenty-fifth of a segment are resolved."""

GREATEST_STRETCH = 1e3
"""Largest entry of the flow of a segment. A model that is still far from the truth may stretch by e^100: such flows are
scaled down to this while they are finite."""

Matrices = Float[Array, "*batch samples observed observed"]


def linear_flow(jacobian: Matrices, power: Matrices, h: Times) -> tuple[Matrices, Matrices]:
    """Compute exp(Jh) and the integral of exp(Js) gg' exp(Js)' over [0, h], where `power` is gg'."""
    flow, noise, _ = forced_flow(jacobian, power, jnp.zeros_like(power[..., 0]), h)
    return flow, noise


def forced_flow(jacobian: Matrices, power: Matrices, force: Points, h: Times) -> tuple[Matrices, Matrices, Points]:
    """Compute the law of dx = (Jx + force) dt + g dW after h seconds: flow, covariance of the noise, and shift.

    Taylor over a part of h, then doublings. Callers keep the batch to few axes: XLA's code for products of small
    matrices over six and more axes crashes on the CPU (jaxlib 0.10).
    """
    step = (h / 2**DOUBLINGS)[..., None, None]
    a = _tamed(jacobian * step)
    flow = _taylor(a)
    term = power * step
    noise = term
    for k in range(2, 6):
        product = matmul(a, term)
        term = (product + transposed(product)) / k
        noise = noise + term
    shift = pushed = force * step[..., 0]
    for k in range(2, 5):
        pushed = matvec(a, pushed) / k
        shift = shift + pushed
    for _ in range(DOUBLINGS):
        noise = noise + matmul(matmul(flow, noise), transposed(flow))
        shift = shift + matvec(flow, shift)
        flow = _squared(flow)
    return flow, noise, shift


def exponential(a: Matrices) -> Matrices:
    """Compute exp(a): Taylor for a small part of it, then squarings."""
    flow = _taylor(_tamed(a / 2**DOUBLINGS))
    for _ in range(DOUBLINGS):
        flow = _squared(flow)
    return flow


def _squared(flow: Matrices) -> Matrices:
    flow = matmul(flow, flow)
    return flow * jnp.minimum(1.0, GREATEST_STRETCH / jnp.max(jnp.abs(flow), axis=(-2, -1), keepdims=True))


def _taylor(a: Matrices) -> Matrices:
    a2 = matmul(a, a)
    return jnp.eye(a.shape[-1], dtype=a.dtype) + a + a2 / 2 + matmul(a2, a) / 6 + matmul(a2, a2) / 24


def _tamed(a: Matrices) -> Matrices:
    """Cap the Frobenius norm at 2: stiffer feedback is not resolved."""
    return a * jnp.minimum(1.0, 2.0 / jnp.sqrt(1e-12 + jnp.sum(a**2, axis=(-2, -1), keepdims=True)))


def matmul(a: Matrices, b: Matrices) -> Matrices:
    """Multiply small matrices by fused elementwise operations, which vectorise over the batch."""
    return jnp.sum(a[..., :, :, None] * b[..., None, :, :], axis=-2)


def matvec(a: Matrices, x: Points) -> Points:
    return jnp.sum(a * x[..., None, :], axis=-1)


def transposed(a: Matrices) -> Matrices:
    return jnp.swapaxes(a, -1, -2)


def noise_power(g: Float[Array, "..."], y: Points) -> Matrices:
    """Return gg', for a matrix g or the diagonal of one, at points `y`."""
    if g.ndim > y.ndim:
        return matmul(g, transposed(g))
    return g[..., None] ** 2 * jnp.eye(y.shape[-1], dtype=y.dtype)


def deviation(g: Float[Array, "..."], y: Points) -> Points:
    """Return sqrt(diag(gg')), for a matrix g or the diagonal of one, at points `y`."""
    return jnp.sqrt(jnp.sum(g**2, axis=-1)) if g.ndim > y.ndim else g
