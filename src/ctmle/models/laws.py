"""Transition laws p(. | y, drive, gap) of an SDE, as Gaussians."""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ctmle.data.drive import ControlLaw
from ctmle.models.gaussian import Gaussian, cholesky
from ctmle.models.integrate import Points, SolverKind, Times, mean_path, short_scan
from ctmle.models.model import SDE
from ctmle.models.networks import SHORTEST_GAP
from ctmle.registry import LAWS, Registry
from ctmle.settings import Part, Positive

Tree = TypeVar("Tree")
Factors = Float[Array, "*batch samples observed observed"]

LONGEST_SEGMENT = 0.125
"""Seconds of a gap that share one linearisation of the covariance."""

DOUBLINGS = 6
"""Doublings of a matrix exponential: time constants down to a twenty-fifth of a segment are resolved."""

GREATEST_STRETCH = 1e3
"""Largest entry of the flow of a segment. A model that is still far from the truth may stretch by e^100: such flows are
scaled down to this while they are finite."""

GREATEST_SPREAD = 1e6
"""Largest spread of a coordinate over a gap, in units of one segment's noise: larger ones are scaled down to it."""


@dataclass(frozen=True)
class Law(Part):
    """(sde, control, t, y, gap) -> density of the state after the gap, under the control that acts during it.

    `start` is the Cholesky factor of the covariance of y itself, if y is uncertain. Gaps are integrated in steps that
    resolve `longest_gap`, so that their values compile nothing anew.
    """

    choices: ClassVar[Registry] = LAWS

    solver: SolverKind = "rk3"
    """Integrator of the drift between looks: steps of order 3, 4 or 5 (dopri5 is Dormand-Prince, the papers'), or
    Dormand-Prince with error control (adaptive: for stiff systems; several times slower)."""
    longest_step: Positive = 0.0625
    """Longest step of the integrator in seconds: steep feedback must be resolved. The adaptive one chooses its own."""

    @abstractmethod
    def __call__(
        self,
        sde: SDE,
        control: ControlLaw,
        t: Times,
        y: Points,
        gap: Times,
        *,
        longest_gap: float,
        start: Factors | None = None,
    ) -> Gaussian: ...


@dataclass(frozen=True)
class EulerCovariance(Law):
    """The mean follows the drift; the covariance is g^2 * gap (step 2c of the paper's appendix)."""

    def __call__(
        self,
        sde: SDE,
        control: ControlLaw,
        t: Times,
        y: Points,
        gap: Times,
        *,
        longest_gap: float,
        start: Factors | None = None,
    ) -> Gaussian:
        segments, steps = steps_for(longest_gap, self.longest_step)

        def drift(t: Times, y: Points) -> Points:
            return sde.drift(y, control(t, y))

        path = mean_path(drift, t, y, gap, segments * steps, self.solver)
        scale = sde.diffusion(y, control(t, y)) * jnp.sqrt(jnp.maximum(gap, SHORTEST_GAP))[..., None]
        factor = scale[..., None] * jnp.eye(y.shape[-1], dtype=y.dtype)
        if start is not None:
            factor = cholesky(_matmul(start, _transposed(start)) + _matmul(factor, factor))
        return Gaussian(path[-1], factor)


@dataclass(frozen=True)
class LinearisedMoments(Law):
    """The mean follows the drift; the covariance follows dP = JP + PJ' + gg', linearised in the middle of each segment.

    The path and its linearisation are computed without a gradient, then used twice: for the covariance, and for how the
    mean moves with the drift at points of the path, dm = Jm + df, which is where the gradient flows. So the path may
    have as many steps as a steep feedback needs; a gradient through them would cost three times as much. At the truth
    the expected gradient is zero however precise the linearisation is, because the mean is exact. If a gap has several
    segments, the gradient also follows how the covariance changes with the slopes of the drift, at a third more
    operations; in a single one there is little of it.
    """

    def __call__(
        self,
        sde: SDE,
        control: ControlLaw,
        t: Times,
        y: Points,
        gap: Times,
        *,
        longest_gap: float,
        start: Factors | None = None,
    ) -> Gaussian:
        segments, steps = steps_for(longest_gap, self.longest_step)

        def drift(sde: SDE) -> Callable[[Times, Points], Points]:
            return lambda t, y: sde.drift(y, control(t, y))

        def times(of_segment: Float[Array, " points"]) -> Float[Array, "*batch samples points"]:
            return t[..., None] + gap[..., None] * of_segment / segments

        known = drift(without_gradient(sde))
        path = mean_path(known, t, y, gap, segments * steps, self.solver)
        starts, lasting = path[::steps], jnp.maximum(gap, SHORTEST_GAP) / segments
        begin, beginnings = times(jnp.arange(segments, dtype=y.dtype)), _by_sample(starts[:-1])
        g = _at_points(lambda t, y: sde.diffusion(y, control(t, y)), begin, beginnings)
        width = jnp.maximum(jax.lax.stop_gradient(g) * jnp.sqrt(lasting)[..., None, None], 1e-2)
        middle = times(jnp.arange(segments, dtype=y.dtype) + 0.5)
        steep = known if segments == 1 else drift(sde)
        jacobians = _slopes(steep, middle, _by_sample(0.5 * (starts[:-1] + starts[1:])), width)

        between = times((jnp.arange(segments * steps, dtype=y.dtype) + 0.5) / steps)
        slopes = _at_points(drift(sde), between, _by_sample(0.5 * (path[:-1] + path[1:])))
        leaning = slopes - jax.lax.stop_gradient(slopes)  # zero, but for its gradient
        leaning = leaning.reshape(*y.shape[:-1], segments, steps, y.shape[-1])
        pieces = tuple(jnp.moveaxis(piece, y.ndim - 1, 0) for piece in (jacobians, g, width, leaning))
        factor = jnp.zeros((*y.shape, y.shape[-1]), y.dtype) if start is None else start
        lean, factor = _spread_along(pieces, lasting, steps, (jnp.zeros_like(y), factor))
        return Gaussian(path[-1] + lean, factor)


def _spread_along(
    pieces: tuple[Array, ...], lasting: Times, steps: int, start: tuple[Points, Factors]
) -> tuple[Points, Factors]:
    """Carry the mean's gradient and the covariance's factor through all segments of a gap."""

    def segment(carry: tuple[Array, Array], piece: tuple[Array, ...]) -> tuple[tuple[Array, Array], None]:
        (lean, factor), (jacobian, g, width, leaning) = carry, piece
        flow, noise = _linear_flow(jacobian, g**2, lasting)
        half = _exponential(jacobian * (lasting / (2 * steps))[..., None, None])
        fresh = jnp.zeros_like(lean)
        for step in range(steps):
            halfway = _matvec(half, fresh) + (lasting / steps)[..., None] * leaning[..., step, :]
            fresh = _matvec(half, halfway)
        lean = _matvec(flow, lean) + fresh
        carried = _matmul(flow, factor)
        factor = cholesky(_matmul(carried, _transposed(carried)) + noise)
        spread = jnp.sqrt(jnp.sum(jax.lax.stop_gradient(factor) ** 2, axis=-1))
        share = jnp.minimum(1.0, GREATEST_SPREAD / jnp.max(spread / width, axis=-1, keepdims=True))
        return (share * lean, share[..., None] * factor), None

    return short_scan(segment, start, pieces)[0]


def steps_for(longest_gap: float, longest_step: float) -> tuple[int, int]:
    """Return the number of segments of a gap and of steps per segment, so that neither are too long."""
    segments = parts_of(longest_gap, LONGEST_SEGMENT)
    return segments, parts_of(longest_gap / segments, longest_step)


def parts_of(longest_gap: float, longest: float) -> int:
    """Return the number of equal parts of a gap, none of them longer than `longest`."""
    return max(1, math.ceil(longest_gap / longest - 1e-6))


def without_gradient(tree: Tree) -> Tree:
    return jax.tree.map(lambda leaf: jax.lax.stop_gradient(leaf) if eqx.is_array(leaf) else leaf, tree)


def _by_sample(points: Float[Array, "points *batch observed"]) -> Float[Array, "*batch points observed"]:
    """Put the points of each sample's path next to each other."""
    return jnp.moveaxis(points, 0, -2)


def _at_points(
    field: Callable, t: Float[Array, "*batch points"], y: Float[Array, "*batch points observed"]
) -> Float[Array, "*batch points observed"]:
    """Evaluate a vector field at several points of each sample at once."""
    flat = field(t.reshape(*t.shape[:-2], -1), y.reshape(*y.shape[:-3], -1, y.shape[-1]))
    return flat.reshape(y.shape)


def _slopes(
    drift: Callable,
    t: Float[Array, "*batch points"],
    y: Float[Array, "*batch points observed"],
    width: Float[Array, "*batch points observed"],
) -> Float[Array, "*batch points observed observed"]:
    """Compute the Jacobian of the drift by central differences as wide as the noise spreads.

    Differences, not derivatives: under a policy that saturates or has kinks they are the slope over the spread.
    """
    size = y.shape[-1]
    shifts = width[..., None, :] * jnp.eye(size, dtype=y.dtype)
    points = jnp.concatenate([y[..., None, :] + shifts, y[..., None, :] - shifts], axis=-2)
    flat = points.reshape(*y.shape[:-2], -1, size)
    values = _at_points(drift, jnp.repeat(t, 2 * size, axis=-1), flat).reshape(points.shape)
    rises = values[..., :size, :] - values[..., size:, :]
    return jnp.swapaxes(rises / (2 * width[..., :, None]), -1, -2)


def _linear_flow(jacobian: Array, variance: Points, h: Times) -> tuple[Array, Array]:
    """Compute exp(Jh) and the integral of exp(Js) gg' exp(Js)' over [0, h]: Taylor over a part of h, then doublings."""
    step = (h / 2**DOUBLINGS)[..., None, None]
    a = _tamed(jacobian * step)
    flow = _taylor(a)
    term = variance[..., None] * jnp.eye(a.shape[-1], dtype=a.dtype) * step
    noise = term
    for k in range(2, 6):
        product = _matmul(a, term)
        term = (product + _transposed(product)) / k
        noise = noise + term
    for _ in range(DOUBLINGS):
        noise = noise + _matmul(_matmul(flow, noise), _transposed(flow))
        flow = _squared(flow)
    return flow, noise


def _exponential(a: Array) -> Array:
    """Compute exp(a): Taylor for a small part of it, then squarings."""
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
    """Cap the Frobenius norm at 2: stiffer feedback is not resolved."""
    return a * jnp.minimum(1.0, 2.0 / (1e-6 + jnp.sqrt(jnp.sum(a**2, axis=(-2, -1), keepdims=True))))


def _matmul(a: Array, b: Array) -> Array:
    """Multiply small matrices by fused elementwise operations, which vectorise over the batch."""
    return jnp.sum(a[..., :, :, None] * b[..., None, :, :], axis=-2)


def _matvec(a: Array, x: Points) -> Points:
    return jnp.sum(a * x[..., None, :], axis=-1)


def _transposed(a: Array) -> Array:
    return jnp.swapaxes(a, -1, -2)
