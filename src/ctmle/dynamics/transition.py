"""The transition law p(. | u, y, gap) of a believed SDE, as a Gaussian."""

import math
from collections.abc import Callable
from typing import Any, Literal, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ctmle.dynamics.gaussian import Gaussian, cholesky
from ctmle.dynamics.integrate import Points, SolverKind, Times, mean_path, short_scan
from ctmle.dynamics.model import SDE, SHORTEST_GAP
from ctmle.envs.base import Spec

Tree = TypeVar("Tree")
ControlLaw = Callable[[Times, Points], Float[Array, "*batch samples control"]]

DOUBLINGS = 6
"""Of a matrix exponential: time constants down to a twenty-fifth of a segment are followed."""

GREATEST_STRETCH = 1e3
"""Of any coordinate by another within a segment. A belief that is still far from the truth may stretch by e^100: such
flows are scaled down to it while they are finite."""

GREATEST_SPREAD = 1e6
"""Of a coordinate over a gap, in units of the noise of one segment: what spreads further is scaled down to it."""

CovarianceKind = Literal["moments", "euler"]


class TransitionLaw(eqx.Module):
    """(dynamics, control, t, y, gap) -> Gaussian, under the control law that acts during the gap.

    The mean follows the drift in `segments` times `steps` equal steps of a Runge-Kutta method (`rk3`, `rk4`, or
    Dormand-Prince's `dopri5`), or in as many steps of Dormand-Prince as their errors ask for (`adaptive`). The
    covariance is g^2 * gap (`euler`, step 2c of the paper's appendix), or follows the equation dP = JP + PJ' + gg',
    linearised in the middle of each segment (`moments`), which stays right when the gap is not small.
    """

    segments: int = eqx.field(static=True, default=1)
    steps: int = eqx.field(static=True, default=1)
    solver: SolverKind = eqx.field(static=True, default="rk4")
    covariance: CovarianceKind = eqx.field(static=True, default="moments")

    def __call__(self, dynamics: SDE, control: ControlLaw, t: Times, y: Points, gap: Times) -> Gaussian:
        if self.covariance == "moments":
            return self._moments(dynamics, control, t, y, gap)

        def drift(t: Times, y: Points) -> Points:
            return dynamics.drift(y, control(t, y))

        path = mean_path(drift, t, y, gap, self.segments * self.steps, self.solver)
        scale = dynamics.diffusion(y, control(t, y)) * jnp.sqrt(jnp.maximum(gap, SHORTEST_GAP))[..., None]
        return Gaussian(path[-1], scale[..., None] * jnp.eye(y.shape[-1], dtype=y.dtype))

    def _moments(self, dynamics: SDE, control: ControlLaw, t: Times, y: Points, gap: Times) -> Gaussian:
        """The path and its linearisation are computed without a gradient, then used twice: for the covariance, and
        for how the mean leans with the drift at points of the path, dm = Jm + df, which is where the gradient flows.

        So the path may have as many steps as a steep feedback asks for; a gradient through them would cost three
        times as much. At the truth the expected gradient is zero however precise the linearisation is, because the
        mean is exact. How the covariance changes with the slopes of the drift is followed where a gap has several
        segments, at a third more operations; in a single one there is little of it.
        """

        def drift(dynamics: SDE) -> Callable[[Times, Points], Points]:
            return lambda t, y: dynamics.drift(y, control(t, y))

        known = drift(without_gradient(dynamics))
        path = mean_path(known, t, y, gap, self.segments * self.steps, self.solver)
        starts, lasting = path[:: self.steps], jnp.maximum(gap, SHORTEST_GAP) / self.segments

        def times(of_segment: Float[Array, " points"]) -> Float[Array, "*batch samples points"]:
            return t[..., None] + gap[..., None] * of_segment / self.segments

        begin, beginnings = times(jnp.arange(self.segments, dtype=y.dtype)), _beside(starts[:-1])
        g = _at_points(lambda t, y: dynamics.diffusion(y, control(t, y)), begin, beginnings)
        width = jnp.maximum(jax.lax.stop_gradient(g) * jnp.sqrt(lasting)[..., None, None], 1e-2)
        middle = times(jnp.arange(self.segments, dtype=y.dtype) + 0.5)
        steep = known if self.segments == 1 else drift(dynamics)
        jacobians = _slopes(steep, middle, _beside(0.5 * (starts[:-1] + starts[1:])), width)

        between = times((jnp.arange(self.segments * self.steps, dtype=y.dtype) + 0.5) / self.steps)
        slopes = _at_points(drift(dynamics), between, _beside(0.5 * (path[:-1] + path[1:])))
        leaning = slopes - jax.lax.stop_gradient(slopes)  # nothing but a gradient

        def segment(carry: tuple[Array, Array], parts: tuple[Array, ...]) -> tuple[tuple[Array, Array], None]:
            (lean, factor), (jacobian, g, width, leaning) = carry, parts
            flow, noise = _linear_flow(jacobian, g**2, lasting)
            half = _exponential(jacobian * (lasting / (2 * self.steps))[..., None, None])
            fresh = jnp.zeros_like(lean)
            for step in range(self.steps):
                halfway = _matvec(half, fresh) + (lasting / self.steps)[..., None] * leaning[..., step, :]
                fresh = _matvec(half, halfway)
            lean = _matvec(flow, lean) + fresh
            carried = _matmul(flow, factor)
            factor = cholesky(_matmul(carried, jnp.swapaxes(carried, -1, -2)) + noise)
            spread = jnp.sqrt(jnp.sum(jax.lax.stop_gradient(factor) ** 2, axis=-1))
            share = jnp.minimum(1.0, GREATEST_SPREAD / jnp.max(spread / width, axis=-1, keepdims=True))
            return (share * lean, share[..., None] * factor), None

        nothing = jnp.zeros_like(y), jnp.zeros((*y.shape, y.shape[-1]), y.dtype)
        leaning = leaning.reshape(*y.shape[:-1], self.segments, self.steps, y.shape[-1])
        parts = tuple(jnp.moveaxis(part, y.ndim - 1, 0) for part in (jacobians, g, width, leaning))
        (lean, factor), _ = short_scan(segment, nothing, parts)
        return Gaussian(path[-1] + lean, factor)


def closed_loop(spec: Spec, policies: Any) -> ControlLaw:
    """The control law of groups of samples, each driven by a policy of its own."""

    def control(t: Array, y: Array) -> Array:
        return spec.clip(eqx.filter_vmap(lambda policy, t, y: policy(t, y))(policies, t, y))

    return control


def segments_of(longest_gap: float, longest: float) -> int:
    """Into how many equal parts a gap is split, so that none is too long."""
    return max(1, math.ceil(longest_gap / longest - 1e-6))


def without_gradient(tree: Tree) -> Tree:
    return jax.tree.map(lambda leaf: jax.lax.stop_gradient(leaf) if eqx.is_array(leaf) else leaf, tree)


def _beside(points: Float[Array, "points *batch observed"]) -> Float[Array, "*batch points observed"]:
    """Points of a path, each beside the others of its sample."""
    return jnp.moveaxis(points, 0, -2)


def _at_points(
    field: Callable, t: Float[Array, "*batch points"], y: Float[Array, "*batch points observed"]
) -> Float[Array, "*batch points observed"]:
    """A vector field at several points of each sample, in one evaluation."""
    flat = field(t.reshape(*t.shape[:-2], -1), y.reshape(*y.shape[:-3], -1, y.shape[-1]))
    return flat.reshape(y.shape)


def _slopes(
    drift: Callable,
    t: Float[Array, "*batch points"],
    y: Float[Array, "*batch points observed"],
    width: Float[Array, "*batch points observed"],
) -> Float[Array, "*batch points observed observed"]:
    """The Jacobian of the drift by central differences as wide as the noise spreads.

    A difference, not a derivative: under a policy that saturates or has kinks it is the slope that the spread sees.
    """
    size = y.shape[-1]
    shifts = width[..., None, :] * jnp.eye(size, dtype=y.dtype)
    points = jnp.concatenate([y[..., None, :] + shifts, y[..., None, :] - shifts], axis=-2)
    flat = points.reshape(*y.shape[:-2], -1, size)
    values = _at_points(drift, jnp.repeat(t, 2 * size, axis=-1), flat).reshape(points.shape)
    rises = values[..., :size, :] - values[..., size:, :]
    return jnp.swapaxes(rises / (2 * width[..., :, None]), -1, -2)


def _linear_flow(jacobian: Array, variance: Points, h: Times) -> tuple[Array, Array]:
    """exp(Jh) and the integral of exp(Js) gg' exp(Js)' over [0, h]: Taylor over a small part of h, then doublings."""
    step = (h / 2**DOUBLINGS)[..., None, None]
    a = _tamed(jacobian * step)
    flow = _taylor(a)
    term = variance[..., None] * jnp.eye(a.shape[-1], dtype=a.dtype) * step
    noise = term
    for k in range(2, 6):
        product = _matmul(a, term)
        term = (product + jnp.swapaxes(product, -1, -2)) / k
        noise = noise + term
    for _ in range(DOUBLINGS):
        noise = noise + _matmul(_matmul(flow, noise), jnp.swapaxes(flow, -1, -2))
        flow = _squared(flow)
    return flow, noise


def _exponential(a: Array) -> Array:
    """exp(a): Taylor for a small part of it, then squarings."""
    flow = _taylor(_tamed(a / 2**DOUBLINGS))
    for _ in range(DOUBLINGS):
        flow = _squared(flow)
    return flow


def _squared(flow: Array) -> Array:
    flow = _matmul(flow, flow)
    return flow * jnp.minimum(1.0, GREATEST_STRETCH / jnp.max(jnp.abs(flow), axis=(-2, -1), keepdims=True))


def _taylor(a: Array) -> Array:
    a2 = _matmul(a, a)
    return jnp.eye(a.shape[-1], dtype=a.dtype) + a + a2 / 2 + _matmul(a2, a) / 6 + _matmul(a2, a2) / 24


def _tamed(a: Array) -> Array:
    """Feedback that is steeper than any that can be followed is taken for less steep."""
    return a * jnp.minimum(1.0, 2.0 / (1e-6 + jnp.sqrt(jnp.sum(a**2, axis=(-2, -1), keepdims=True))))


def _matmul(a: Array, b: Array) -> Array:
    """A product of small matrices as fused elementwise operations, which vectorise over the batch."""
    return jnp.sum(a[..., :, :, None] * b[..., None, :, :], axis=-2)


def _matvec(a: Array, x: Points) -> Points:
    return jnp.sum(a * x[..., None, :], axis=-1)
