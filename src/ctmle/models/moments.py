"""A Gaussian law by linearised moments."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ctmle.models.flow import Matrices, deviation, exponential, linear_flow, matmul, matvec, noise_power, transposed
from ctmle.models.gaussian import Gaussian, cholesky
from ctmle.models.integrate import Points, Times, mean_path, short_scan
from ctmle.models.laws import Gap, Law, at_points, by_sample, slopes, steps_for, without_gradient
from ctmle.models.model import SDE
from ctmle.models.networks import SHORTEST_GAP

GREATEST_SPREAD = 1e6
"""Largest spread of a coordinate over a gap, in units of one segment's noise: larger ones are scaled down to it."""

NARROWEST = 1e-2
"""Smallest half-width of a difference quotient."""


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

    def __call__(self, sde: SDE, gap: Gap) -> Gaussian:
        segments, steps = steps_for(gap.longest, self.longest_step)
        y, known = gap.y, gap.drift(without_gradient(sde))
        path = mean_path(known, gap.t, y, gap.seconds, segments * steps, self.solver)
        starts, lasting = path[::steps], jnp.maximum(gap.seconds, SHORTEST_GAP) / segments
        number = jnp.arange(segments, dtype=y.dtype)
        beginnings = by_sample(starts[:-1])
        g = at_points(gap.diffusion(sde), gap.times(number, segments), beginnings)
        width = half_width(g, beginnings, lasting[..., None])
        steep = known if segments == 1 else gap.drift(sde)
        middle = by_sample(0.5 * (starts[:-1] + starts[1:]))
        jacobians = slopes(steep, gap.times(number + 0.5, segments), middle, width)

        between = gap.times((jnp.arange(segments * steps, dtype=y.dtype) + 0.5) / steps, segments)
        drifts = at_points(gap.drift(sde), between, by_sample(0.5 * (path[:-1] + path[1:])))
        leaning = drifts - jax.lax.stop_gradient(drifts)  # zero, but for its gradient
        leaning = leaning.reshape(*y.shape[:-1], segments, steps, y.shape[-1])
        pieces = tuple(
            jnp.moveaxis(piece, y.ndim - 1, 0) for piece in (jacobians, noise_power(g, middle), width, leaning)
        )
        factor = jnp.zeros((*y.shape, y.shape[-1]), y.dtype) if gap.start is None else gap.start
        lean, factor = _spread_along(pieces, lasting, steps, (jnp.zeros_like(y), factor))
        return Gaussian(path[-1] + lean, factor)


def half_width(g: Array, y: Points, lasting: Array) -> Points:
    """Return how far the noise of a segment spreads each coordinate: the half-width of difference quotients there."""
    return jnp.maximum(deviation(jax.lax.stop_gradient(g), y) * jnp.sqrt(lasting)[..., None], NARROWEST)


def _spread_along(
    pieces: tuple[Array, ...], lasting: Times, steps: int, start: tuple[Points, Matrices]
) -> tuple[Points, Matrices]:
    """Carry the mean's gradient and the covariance's factor through all segments of a gap."""

    def segment(carry: tuple[Array, Array], piece: tuple[Array, ...]) -> tuple[tuple[Array, Array], None]:
        (lean, factor), (jacobian, power, width, leaning) = carry, piece
        flow, noise = linear_flow(jacobian, power, lasting)
        half = exponential(jacobian * (lasting / (2 * steps))[..., None, None])
        fresh = jnp.zeros_like(lean)
        for step in range(steps):
            halfway = matvec(half, fresh) + (lasting / steps)[..., None] * leaning[..., step, :]
            fresh = matvec(half, halfway)
        lean = matvec(flow, lean) + fresh
        carried = matmul(flow, factor)
        factor = cholesky(matmul(carried, transposed(carried)) + noise)
        share = share_within(jnp.sqrt(jnp.sum(jax.lax.stop_gradient(factor) ** 2, axis=-1)), width)
        return (share * lean, share[..., None] * factor), None

    return short_scan(segment, start, pieces)[0]


def share_within(spread: Points, width: Points) -> Array:
    """Return the factor that brings a spread down to `GREATEST_SPREAD` widths, at most 1."""
    return jnp.minimum(1.0, GREATEST_SPREAD / jnp.max(spread / width, axis=-1, keepdims=True))
