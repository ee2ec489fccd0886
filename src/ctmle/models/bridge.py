"""A law for long gaps: linearised moments, linearised anew along the path that ends where the state was seen."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ctmle.models.flow import Matrices, forced_flow, matmul, matvec, noise_power, transposed
from ctmle.models.gaussian import Gaussian, cholesky, marginal, solve_lower, solve_upper
from ctmle.models.integrate import Points, mean_path
from ctmle.models.laws import LONGEST_SEGMENT, Gap, Law, at_points, by_sample, parts_of, slopes, without_gradient
from ctmle.models.model import SDE
from ctmle.models.moments import LinearisedMoments, half_width, share_within
from ctmle.models.networks import SHORTEST_GAP
from ctmle.settings import Count, Positive, option

MOST_SEGMENTS = 32
"""Of a gap: longer gaps have longer segments, so that what a gap costs is bounded."""

Path = Float[Array, "*batch samples nodes observed"]


@dataclass(frozen=True)
class Bridge(Law):
    """The density of the linear SDE that approximates the system along the most likely path to the observed end.

    Pass 1 linearises along the path of the drift: that is the law by linearised moments. Each further pass linearises
    along the mean of the linear SDE *given* its end (a Gauss-Newton step towards the most likely path), where the
    system really went. The paths have no gradient; the last linearisation has. The density is not exactly
    normalised, because each end has a linearisation of its own (docs/ct-mle.md). Short gaps have one pass.
    """

    passes: Count = option(3, "bridge_passes")
    """Linearisations of a gap longer than 1/8 s, each along the most likely path under the one before."""
    segment: Positive = option(0.0625, "bridge_segment")
    """Longest piece of a gap that shares one linearisation, in seconds."""

    def __call__(self, sde: SDE, gap: Gap) -> Gaussian:
        passes = self.passes if parts_of(gap.longest, LONGEST_SEGMENT) > 1 else 1
        if gap.end is None or passes == 1:
            return LinearisedMoments(self.solver, self.longest_step)(sde, gap)
        segments = min(parts_of(gap.longest, self.segment), MOST_SEGMENTS)
        known = without_gradient(sde)
        steps = parts_of(gap.longest / segments, self.longest_step)
        mean = mean_path(gap.drift(known), gap.t, gap.y, gap.seconds, segments * steps, self.solver)[::steps]
        first = by_sample(mean)

        def another(carry: tuple[Path, Path, Array], _: None) -> tuple[tuple[Path, Path, Array], None]:
            path, best, least = carry
            found = linearise(known, gap, path)
            better = (found.cost <= least)[..., None, None]
            # Where a step went uphill, the path before it stays.
            best, least = jnp.where(better, path, best), jnp.minimum(found.cost, least)
            return (jnp.where(better, found.towards(gap, path), best), best, least), None

        start = linearise(known, gap, first).towards(gap, first)
        begin = (start, start, jnp.full(gap.seconds.shape, jnp.inf, gap.y.dtype))
        (path, _, _), _ = jax.lax.scan(another, begin, None, length=passes - 2)
        path = jax.lax.stop_gradient(path)
        found = linearise(sde, gap, path)
        return Gaussian(path[..., -1, :] + found.shift[-1], cholesky(found.covariance[-1]))


class Linearised(eqx.Module):
    """A linear SDE around a path: the flow of every segment, and moments relative to the path at every node.

    `cost` is how far the path is from one that the SDE takes without noise, in units of that noise.
    """

    flow: Float[Array, "segments *batch samples observed observed"]
    shift: Float[Array, "nodes *batch samples observed"]
    covariance: Float[Array, "nodes *batch samples observed observed"]
    cost: Float[Array, "*batch samples"]

    def towards(self, gap: Gap, path: Path) -> Path:
        """Return the mean of the linear SDE at every node, given that it ends where the state was seen."""
        mean = path[..., -1, :] + self.shift[-1]
        law, residual = marginal(Gaussian(mean, cholesky(self.covariance[-1])), gap.residual(mean))
        pull = solve_upper(law.factor, solve_lower(law.factor, residual))

        def back(pull: Points, flow: Matrices) -> tuple[Points, Points]:
            earlier = matvec(transposed(flow), pull)
            return earlier, earlier

        _, earlier = jax.lax.scan(back, pull, self.flow, reverse=True)
        pulls = jnp.concatenate([earlier, pull[None]])
        moved = path + by_sample(self.shift + matvec(self.covariance, pulls))
        return jnp.where(jnp.all(jnp.isfinite(moved), axis=(-2, -1), keepdims=True), moved, path)


def linearise(sde: SDE, gap: Gap, path: Path) -> Linearised:
    """Approximate the system along a path by a linear SDE with a Jacobian, a force and a noise for every segment."""
    segments = path.shape[-2] - 1
    h = jnp.maximum(gap.seconds, SHORTEST_GAP)[..., None] / segments
    number, drift = jnp.arange(segments + 1, dtype=path.dtype), gap.drift(sde)
    ends = at_points(gap.drift(without_gradient(sde)), gap.times(number, segments), path)
    here, there = ends[..., :-1, :], ends[..., 1:, :]
    # The middle of a cubic through both ends of a segment with these slopes; the drift's mean by Simpson's rule, its
    # gradient by the middle alone.
    middle = 0.5 * (path[..., :-1, :] + path[..., 1:, :]) + h[..., None] / 8 * (here - there)
    when = gap.times(number[:-1] + 0.5, segments)
    g = at_points(gap.diffusion(sde), when, middle)
    jacobian = slopes(drift, when, middle, half_width(g, middle, h))
    halfway = at_points(drift, when, middle)
    mean_drift = halfway + jax.lax.stop_gradient((here + there - 2 * halfway) / 6)
    force = mean_drift - jnp.diff(path, axis=-2) / h[..., None]
    batch = when.shape
    given = (jacobian, noise_power(g, middle), force, jnp.broadcast_to(h, batch))
    flat = forced_flow(*(each.reshape(-1, *each.shape[len(batch) :]) for each in given))
    flow, noise, shift = (each.reshape(*batch, *each.shape[1:]) for each in flat)
    missed = solve_lower(cholesky(jax.lax.stop_gradient(noise)), jax.lax.stop_gradient(shift))
    pieces = tuple(jnp.moveaxis(piece, path.ndim - 2, 0) for piece in (flow, noise, shift))
    shifts, covariances = _carried(pieces, gap)
    return Linearised(pieces[0], shifts, covariances, jnp.sum(missed**2, axis=(-2, -1)))


def _carried(pieces: tuple[Array, ...], gap: Gap) -> tuple[Array, Array]:
    """Carry shift and covariance through all segments; return them at every node."""
    size = gap.y.shape[-1]
    start = jnp.zeros((*gap.y.shape, size), gap.y.dtype)
    if gap.start is not None:
        start = matmul(gap.start, transposed(gap.start))

    def segment(carry: tuple[Array, Array], piece: tuple[Array, ...]) -> tuple[tuple[Array, Array], Any]:
        (shift, covariance), (flow, noise, push) = carry, piece
        shift = matvec(flow, shift) + push
        covariance = matmul(matmul(flow, covariance), transposed(flow)) + noise
        deviations = [jnp.sqrt(jnp.diagonal(jax.lax.stop_gradient(c), axis1=-2, axis2=-1)) for c in (covariance, noise)]
        share = share_within(*deviations)
        carry = share * shift, share[..., None] ** 2 * covariance
        return carry, carry

    begin = (jnp.zeros_like(gap.y), start)
    _, later = jax.lax.scan(segment, begin, pieces)
    shifts, covariances = (jnp.concatenate([first[None], rest]) for first, rest in zip(begin, later, strict=True))
    return shifts, covariances
