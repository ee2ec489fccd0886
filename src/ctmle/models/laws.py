"""Transition laws p(. | y, drive, gap) of an SDE, as Gaussians."""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ctmle.data.drive import ControlLaw
from ctmle.envs.observation import Observation
from ctmle.models.flow import matmul, noise_power, transposed
from ctmle.models.gaussian import Gaussian, cholesky, marginal
from ctmle.models.integrate import Points, SolverKind, Times, mean_path
from ctmle.models.model import SDE
from ctmle.models.networks import SHORTEST_GAP
from ctmle.registry import LAWS, Registry
from ctmle.settings import Part, Positive

LONGEST_SEGMENT = 0.125
"""Seconds of a gap that share one linearisation of the covariance."""

Tree = TypeVar("Tree")
VectorField = Callable[[Float[Array, "*batch points"], Float[Array, "*batch points observed"]], Array]


class Gap(eqx.Module):
    """A batch of gaps between two looks: where each begins, how long it lasts, and under which control.

    `end` is where the state was seen at the end; a law may use it to linearise where the path went. With `missing`,
    cells of `end` may be NaN: they were not measured. `start` is the Cholesky factor of the covariance of y itself, if
    y is uncertain. Integrators take steps that resolve `longest`, so that the lengths of gaps compile nothing anew.
    """

    control: ControlLaw
    t: Times
    y: Points
    seconds: Times
    longest: float = eqx.field(static=True)
    end: Points | None = None
    start: Float[Array, "*batch samples observed observed"] | None = None
    observation: Observation | None = None
    missing: bool = eqx.field(static=True, default=False)

    def residual(self, mean: Points) -> Points:
        """Return what was seen at the end minus `mean`, the short way round for angles."""
        assert self.end is not None  # callers ask only then
        return self.end - mean if self.observation is None else self.observation.residual(self.end, mean)

    def drift(self, sde: SDE) -> VectorField:
        """Return the drift of the closed loop."""
        return lambda t, y: sde.drift(y, self.control(t, y))

    def diffusion(self, sde: SDE) -> VectorField:
        """Return the diffusion of the closed loop."""
        return lambda t, y: sde.diffusion(y, self.control(t, y))

    def times(self, pieces: Float[Array, " points"], count: int) -> Float[Array, "*batch samples points"]:
        """Return when so many of `count` equal pieces of each gap are over."""
        return self.t[..., None] + self.seconds[..., None] * pieces / count


@dataclass(frozen=True)
class Law(Part):
    """(sde, gap) -> density of the state after the gap."""

    choices: ClassVar[Registry] = LAWS

    solver: SolverKind = "rk3"
    """Integrator of the drift between looks: steps of order 3, 4 or 5 (dopri5 is Dormand-Prince, the papers'), or
    Dormand-Prince with error control (adaptive: for stiff systems; several times slower)."""
    longest_step: Positive = 0.0625
    """Longest step of the integrator in seconds: steep feedback must be resolved. The adaptive one chooses its own."""

    @abstractmethod
    def __call__(self, sde: SDE, gap: Gap) -> Gaussian: ...

    def seen(self, sde: SDE, gap: Gap, *, blind: bool = False) -> tuple[Gaussian, Points]:
        """Return the law of what was seen at the end of each gap, and its residual. Missing cells count as nothing.

        A `blind` law is the same wherever the gap ended, as losses need that differentiate it by the end.
        """
        law = self(sde, replace(gap, end=None) if blind else gap)
        residual = gap.residual(law.mean)
        return marginal(law, residual, jnp.isnan(gap.end)) if gap.missing and gap.end is not None else (law, residual)


@dataclass(frozen=True)
class EulerCovariance(Law):
    """The mean follows the drift; the covariance is gg' * gap (step 2c of the paper's appendix)."""

    def __call__(self, sde: SDE, gap: Gap) -> Gaussian:
        segments, steps = steps_for(gap.longest, self.longest_step)
        path = mean_path(gap.drift(sde), gap.t, gap.y, gap.seconds, segments * steps, self.solver)
        g, lasting = gap.diffusion(sde)(gap.t, gap.y), jnp.maximum(gap.seconds, SHORTEST_GAP)
        if g.ndim > gap.y.ndim:
            covariance = noise_power(g, gap.y) * lasting[..., None, None]
        else:
            scale = g * jnp.sqrt(lasting)[..., None]
            factor = scale[..., None] * jnp.eye(gap.y.shape[-1], dtype=gap.y.dtype)
            if gap.start is None:
                return Gaussian(path[-1], factor)
            covariance = matmul(factor, factor)
        if gap.start is not None:
            covariance = matmul(gap.start, transposed(gap.start)) + covariance
        return Gaussian(path[-1], cholesky(covariance))


def steps_for(longest_gap: float, longest_step: float, longest_segment: float = LONGEST_SEGMENT) -> tuple[int, int]:
    """Return the number of segments of a gap and of steps per segment, so that neither are too long."""
    segments = parts_of(longest_gap, longest_segment)
    return segments, parts_of(longest_gap / segments, longest_step)


def is_long(longest_gap: float) -> bool:
    """Return whether a gap is too long for a single linearisation."""
    return parts_of(longest_gap, LONGEST_SEGMENT) > 1


def parts_of(longest_gap: float, longest: float) -> int:
    """Return the number of equal parts of a gap, none of them longer than `longest`."""
    return max(1, math.ceil(longest_gap / longest - 1e-6))


def by_sample(points: Float[Array, "points *batch observed"]) -> Float[Array, "*batch points observed"]:
    """Put the points of each sample's path next to each other."""
    return jnp.moveaxis(points, 0, -2)


def at_points(
    field: VectorField, t: Float[Array, "*batch points"], y: Float[Array, "*batch points observed"]
) -> Float[Array, "..."]:
    """Evaluate a field of vectors or matrices at several points of each sample at once."""
    flat = field(t.reshape(*t.shape[:-2], -1), y.reshape(*y.shape[:-3], -1, y.shape[-1]))
    return flat.reshape(*y.shape[:-1], *flat.shape[t.ndim - 1 :])


Beside = Float[Array, "*batch points observed observed"]


def around(
    field: VectorField,
    t: Float[Array, "*batch points"],
    y: Float[Array, "*batch points observed"],
    width: Float[Array, "*batch points observed"],
) -> tuple[Beside, Beside]:
    """Evaluate a field above and below each point: a row for every coordinate, `width` away along it."""
    size = y.shape[-1]
    shifts = width[..., None, :] * jnp.eye(size, dtype=y.dtype)
    points = jnp.concatenate([y[..., None, :] + shifts, y[..., None, :] - shifts], axis=-2)
    flat = points.reshape(*y.shape[:-2], -1, size)
    values = at_points(field, jnp.repeat(t, 2 * size, axis=-1), flat).reshape(points.shape)
    return values[..., :size, :], values[..., size:, :]


def slopes(
    drift: VectorField,
    t: Float[Array, "*batch points"],
    y: Float[Array, "*batch points observed"],
    width: Float[Array, "*batch points observed"],
) -> Float[Array, "*batch points observed observed"]:
    """Compute the Jacobian of the drift by central differences as wide as the noise spreads.

    Differences, not derivatives: under a policy that saturates or has kinks they are the slope over the spread.
    """
    above, below = around(drift, t, y, width)
    return jnp.swapaxes((above - below) / (2 * width[..., :, None]), -1, -2)


def without_gradient(tree: Tree) -> Tree:
    return jax.tree.map(lambda leaf: jax.lax.stop_gradient(leaf) if eqx.is_array(leaf) else leaf, tree)
