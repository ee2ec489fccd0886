"""A law for long gaps: linearised moments, linearised anew along the path that ends where the state was seen."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ctmle.models.flow import forced_flow, matmul, matvec, noise_power, transposed
from ctmle.models.gaussian import Gaussian, cholesky, marginal, solve_lower, solve_upper
from ctmle.models.integrate import Points, mean_path
from ctmle.models.laws import (
    LONGEST_SEGMENT,
    Gap,
    Law,
    around,
    at_points,
    by_sample,
    is_long,
    parts_of,
    without_gradient,
)
from ctmle.models.model import SDE
from ctmle.models.moments import LinearisedMoments, half_width, share_within
from ctmle.models.networks import SHORTEST_GAP
from ctmle.settings import Count, Positive, option

MOST_SEGMENTS = 32
"""Most segments of a gap. Above 2 s segments become longer instead, up to 1/8 s each."""

WIDTH = 2**0.5
"""Half-width of difference quotients, in standard deviations of the state given both looks. With the weights 1/4, 1/2
and 1/4, the three points on each axis have the mean and the variance of a normal. Correlations are ignored."""

INSIDE = 1e-3
"""Share of a segment by which its ends are moved inwards in time: a recorded control may jump there."""

BEND = 0.5
"""Share of the curvature's shift that counts. To first order it is 1; but then densities integrate to more than 1, by
more for larger noise, and fits take too much noise for true. Without it those of a gap of 1 s integrate to less."""

STRIDE = 0.7
"""Share of the way to the next path that passes after the first go: full steps may jump to and fro over a switch of the
policy."""

Path = Float[Array, "*batch samples nodes observed"]


class Tube(eqx.Module):
    """Mean and standard deviation of the state at the nodes of each gap, given the looks at both ends."""

    path: Path
    spread: Path


@dataclass(frozen=True)
class Bridge(Law):
    """The density of the linear SDE that approximates the system where it went, given where it was seen at the end.

    Pass 1 linearises along the path of the drift: that is the law by linearised moments. Each further pass linearises
    around the law of the state *given* both looks under the pass before: the drift is averaged, and its slopes are
    taken, over the spread that the state had there. What was found so far has no gradient; the last linearisation has.
    The density is not exactly normalised, because each end has a linearisation of its own (docs/ct-mle.md). Short gaps
    have one pass.
    """

    passes: Count = option(3, "bridge_passes")
    """Linearisations of a gap longer than 1/8 s, each around where the one before says that the state went."""
    segment: Positive = option(0.0625, "bridge_segment")
    """Longest piece of a gap that shares one linearisation, in seconds. Gaps above 2 s have longer pieces."""

    def __call__(self, sde: SDE, gap: Gap) -> Gaussian:
        if gap.end is None or self.passes == 1 or not is_long(gap.longest):
            return LinearisedMoments(self.solver, self.longest_step)(sde, gap)
        tube = jax.lax.stop_gradient(self.tube(without_gradient(sde), gap))
        found = linearise(sde, gap, tube)
        return Gaussian(tube.path[..., -1, :] + found.shift[-1], cholesky(found.covariance[-1]))

    def tube(self, known: SDE, gap: Gap) -> Tube:
        """Return where the state went in each gap, given where it was seen at the end, by all passes but the last."""
        coarsest = parts_of(gap.longest, LONGEST_SEGMENT)
        segments = max(min(parts_of(gap.longest, self.segment), MOST_SEGMENTS), coarsest)
        steps = parts_of(gap.longest / segments, self.longest_step)
        path = by_sample(mean_path(gap.drift(known), gap.t, gap.y, gap.seconds, segments * steps, self.solver)[::steps])

        def another(tube: Tube, _: None) -> tuple[Tube, None]:
            towards = linearise(known, gap, tube).given_end(gap, tube)
            return Tube(tube.path + STRIDE * (towards.path - tube.path), towards.spread), None

        alone = Tube(path, jnp.zeros_like(path))
        first = linearise(known, gap, alone).given_end(gap, alone)
        return jax.lax.scan(another, first, None, length=max(self.passes - 2, 0))[0]


class Linearised(eqx.Module):
    """A linear SDE around a path: the flow of every segment, and moments relative to the path at every node."""

    flow: Float[Array, "segments *batch samples observed observed"]
    shift: Float[Array, "nodes *batch samples observed"]
    covariance: Float[Array, "nodes *batch samples observed observed"]

    def given_end(self, gap: Gap, tube: Tube) -> Tube:
        """Return the law of the linear SDE at every node, given where the state was seen at the end."""
        assert gap.end is not None  # callers ask only then
        mean = tube.path[..., -1, :] + self.shift[-1]
        law, residual = Gaussian(mean, cholesky(self.covariance[-1])), gap.residual(mean)
        if gap.missing:
            law, residual = marginal(law, residual, jnp.isnan(gap.end))
        seen = jnp.isfinite(gap.end).astype(mean.dtype)[..., None] * jnp.eye(mean.shape[-1], dtype=mean.dtype)
        # White noise of the end, as a linear function of the deviation at a node: solve(factor, flow from there).
        columns = [solve_lower(law.factor, seen[..., i]) for i in range(mean.shape[-1])]
        pull, whitened = solve_upper(law.factor, solve_lower(law.factor, residual)), jnp.stack(columns, axis=-1)

        def back(later: tuple[Array, Array], flow: Array) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
            pull, whitened = later
            earlier = matvec(transposed(flow), pull), matmul(whitened, flow)
            return earlier, earlier

        end = (pull, whitened)
        _, earlier = jax.lax.scan(back, end, self.flow, reverse=True)
        pulls, whiteneds = (jnp.concatenate([a, b[None]]) for a, b in zip(earlier, end, strict=True))
        path = tube.path + by_sample(self.shift + matvec(self.covariance, pulls))
        explained = jnp.sum(matmul(whiteneds, self.covariance) ** 2, axis=-2)
        variance = by_sample(jnp.diagonal(self.covariance, axis1=-2, axis2=-1) - explained)
        finite = jnp.all(jnp.isfinite(path) & jnp.isfinite(variance), axis=(-2, -1), keepdims=True)
        return Tube(
            jnp.where(finite, path, tube.path),
            jnp.where(finite, jnp.sqrt(jnp.maximum(variance, 0.0)), tube.spread),
        )


def linearise(sde: SDE, gap: Gap, tube: Tube) -> Linearised:
    """Approximate the system where it went by a linear SDE with a Jacobian, a force and a noise for every segment."""
    path, spread = tube.path, 0.5 * (tube.spread[..., :-1, :] + tube.spread[..., 1:, :])
    segments = path.shape[-2] - 1
    h = jnp.maximum(gap.seconds, SHORTEST_GAP)[..., None] / segments
    number, drift = jnp.arange(segments + 1, dtype=path.dtype), gap.drift(sde)
    known = gap.drift(without_gradient(sde))
    here = at_points(known, gap.times(number[:-1] + INSIDE, segments), path[..., :-1, :])
    there = at_points(known, gap.times(number[1:] - INSIDE, segments), path[..., 1:, :])
    # The middle of a cubic through both ends of a segment with these slopes; the drift's mean along it by Simpson's
    # rule, whose gradient is by the middle alone.
    middle = 0.5 * (path[..., :-1, :] + path[..., 1:, :]) + h[..., None] / 8 * (here - there)
    when = gap.times(number[:-1] + 0.5, segments)
    g = at_points(gap.diffusion(sde), when, middle)
    least = half_width(g, middle, h)
    width = jnp.maximum(least, WIDTH * spread)
    above, below = around(drift, when, middle, width)
    halfway = at_points(drift, when, middle)
    jacobian = jnp.swapaxes((above - below) / (2 * width[..., :, None]), -1, -2)
    bend = (above + below - 2 * halfway[..., None, :]) * ((spread / width) ** 2)[..., :, None]
    along = jax.lax.stop_gradient((here + there - 2 * halfway) / 6)
    force = halfway + 0.5 * BEND * jnp.sum(bend, axis=-2) + along - jnp.diff(path, axis=-2) / h[..., None]
    batch = when.shape
    given = (jacobian, noise_power(g, middle), force, jnp.broadcast_to(h, batch))
    flat = forced_flow(*(each.reshape(-1, *each.shape[len(batch) :]) for each in given))
    shaped = (*(each.reshape(*batch, *each.shape[1:]) for each in flat), least)
    pieces = tuple(jnp.moveaxis(each, path.ndim - 2, 0) for each in shaped)
    return Linearised(pieces[0], *_carried(pieces, gap, gap.y - path[..., 0, :]))


def _carried(pieces: tuple[Array, ...], gap: Gap, shift: Points) -> tuple[Array, Array]:
    """Carry shift and covariance through all segments; return them at every node.

    An uncertain start is not where its smoothed path begins: `shift` is how far its mean is from there.
    """
    size = gap.y.shape[-1]
    start = jnp.zeros((*gap.y.shape, size), gap.y.dtype)
    if gap.start is not None:
        start = matmul(gap.start, transposed(gap.start))

    def segment(carry: tuple[Array, Array], piece: tuple[Array, ...]) -> tuple[tuple[Array, Array], Any]:
        (shift, covariance), (flow, noise, push, width) = carry, piece
        shift = matvec(flow, shift) + push
        covariance = matmul(matmul(flow, covariance), transposed(flow)) + noise
        variance = jnp.diagonal(jax.lax.stop_gradient(covariance), axis1=-2, axis2=-1)
        share = share_within(jnp.sqrt(variance), width)
        carry = share * shift, share[..., None] ** 2 * covariance
        return carry, carry

    begin = (shift, start)
    _, later = jax.lax.scan(segment, begin, pieces)
    shifts, covariances = (jnp.concatenate([first[None], rest]) for first, rest in zip(begin, later, strict=True))
    return shifts, covariances
