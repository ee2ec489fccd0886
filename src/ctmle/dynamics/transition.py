"""The transition law p(. | u, y, gap) of a believed SDE, as a Gaussian."""

import functools
import math
from collections.abc import Callable
from typing import Any, Literal, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ctmle.dynamics.gaussian import Gaussian, cholesky
from ctmle.dynamics.model import SDE, SHORTEST_GAP
from ctmle.envs.base import Spec

Tree = TypeVar("Tree")
Times = Float[Array, "*batch samples"]
Points = Float[Array, "*batch samples observed"]
ControlLaw = Callable[[Times, Points], Float[Array, "*batch samples control"]]

DOUBLINGS = 6
"""Of a matrix exponential: time constants down to a twenty-fifth of a segment are followed."""

MOST_STEPS = 16
"""Of the adaptive solver in one gap."""

TOLERANCE = 1e-3
"""Of the adaptive solver, absolute and relative: far below what noise does to a state in a gap."""

DOPRI5_STAGES: tuple[tuple[float, tuple[float, ...]], ...] = (
    (1 / 5, (1 / 5,)),
    (3 / 10, (3 / 40, 9 / 40)),
    (4 / 5, (44 / 45, -56 / 15, 32 / 9)),
    (8 / 9, (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729)),
    (1.0, (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656)),
)
DOPRI5_WEIGHTS = (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84)
"""When each stage after the first is and what it weighs those before it with, and what the step weighs them with."""

SolverKind = Literal["rk3", "rk4", "dopri5", "adaptive"]
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
        def drift(t: Times, y: Points) -> Points:
            return dynamics.drift(y, control(t, y))

        if self.covariance == "moments":
            return self._moments(dynamics, control, t, y, gap)
        path = mean_path(drift, t, y, gap, self.segments * self.steps, self.solver)
        scale = dynamics.diffusion(y, control(t, y)) * jnp.sqrt(jnp.maximum(gap, SHORTEST_GAP))[..., None]
        return Gaussian(path[-1], scale[..., None] * jnp.eye(y.shape[-1], dtype=y.dtype))

    def _moments(self, dynamics: SDE, control: ControlLaw, t: Times, y: Points, gap: Times) -> Gaussian:
        """The path and its linearisation are computed without a gradient, then used twice: for the covariance, and
        for how the mean leans with the drift at points of the path, dm = Jm + df, which is where the gradient flows.

        So the path may have as many steps as a steep feedback asks for; a gradient through them would cost three
        times as much. At the truth the expected gradient is zero however precise the linearisation is, because the
        mean is exact.
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
        jacobians = _slopes(known, middle, _beside(0.5 * (starts[:-1] + starts[1:])), width)

        between = times((jnp.arange(self.segments * self.steps, dtype=y.dtype) + 0.5) / self.steps)
        slopes = _at_points(drift(dynamics), between, _beside(0.5 * (path[:-1] + path[1:])))
        leaning = slopes - jax.lax.stop_gradient(slopes)  # nothing but a gradient

        def segment(carry: tuple[Array, Array], parts: tuple[Array, Array, Array]) -> tuple[tuple[Array, Array], None]:
            (lean, covariance), (jacobian, g, leaning) = carry, parts
            half = _exponential(jacobian * (lasting / (2 * self.steps))[..., None, None])
            for step in range(self.steps):
                halfway = _matvec(half, lean) + (lasting / self.steps)[..., None] * leaning[..., step, :]
                lean = _matvec(half, halfway)
            flow, noise = _linear_flow(jacobian, g**2, lasting)
            return (lean, _matmul(_matmul(flow, covariance), jnp.swapaxes(flow, -1, -2)) + noise), None

        nothing = jnp.zeros_like(y), jnp.zeros((*y.shape, y.shape[-1]), y.dtype)
        leaning = leaning.reshape(*y.shape[:-1], self.segments, self.steps, y.shape[-1])
        parts = (jnp.moveaxis(jacobians, -3, 0), jnp.moveaxis(g, -2, 0), jnp.moveaxis(leaning, -3, 0))
        (lean, covariance), _ = _scan(segment, nothing, parts)
        return Gaussian(path[-1] + lean, cholesky(covariance))


def closed_loop(spec: Spec, policies: Any) -> ControlLaw:
    """The control law of groups of samples, each driven by a policy of its own."""

    def control(t: Array, y: Array) -> Array:
        return spec.clip(eqx.filter_vmap(lambda policy, t, y: policy(t, y))(policies, t, y))

    return control


def segments_of(longest_gap: float, longest: float) -> int:
    """Into how many equal parts a gap is split, so that none is too long."""
    return max(1, math.ceil(longest_gap / longest - 1e-6))


def mean_path(
    drift: Callable, t: Times, y: Points, gap: Times, segments: int, solver: SolverKind
) -> Float[Array, "ends ..."]:
    """Where the drift leads from y, at the ends of equal segments of the gap."""
    if solver == "adaptive":
        return _adaptive_path(drift, t, y, gap, segments)
    slope = {"rk3": _rk3_slope, "rk4": _rk4_slope, "dopri5": _dopri5_slope}[solver]
    h = gap / segments

    def segment(y: Points, i: Array) -> tuple[Points, Points]:
        y = y + h[..., None] * slope(drift, t + i * h, y, h)
        return y, y

    _, later = _scan(segment, y, jnp.arange(segments, dtype=y.dtype))
    return jnp.concatenate([y[None], later])


def _rk3_slope(drift: Callable, t: Times, y: Points, h: Times) -> Points:
    """Of a step by the method of Bogacki and Shampine: third order for three evaluations."""
    k1 = drift(t, y)
    k2 = drift(t + h / 2, y + h[..., None] / 2 * k1)
    k3 = drift(t + 3 * h / 4, y + 3 * h[..., None] / 4 * k2)
    return (2 * k1 + 3 * k2 + 4 * k3) / 9


def _rk4_slope(drift: Callable, t: Times, y: Points, h: Times) -> Points:
    """Of a step by the classical method: fourth order for four evaluations."""
    k1 = drift(t, y)
    k2 = drift(t + h / 2, y + h[..., None] / 2 * k1)
    k3 = drift(t + h / 2, y + h[..., None] / 2 * k2)
    k4 = drift(t + h, y + h[..., None] * k3)
    return (k1 + 2 * k2 + 2 * k3 + k4) / 6


def _dopri5_slope(drift: Callable, t: Times, y: Points, h: Times) -> Points:
    """Of a step by the method of Dormand and Prince: fifth order for six evaluations."""
    slopes = [drift(t, y)]
    for time, weights in DOPRI5_STAGES:
        slopes.append(drift(t + time * h, y + h[..., None] * _weighed(weights, slopes)))
    return _weighed(DOPRI5_WEIGHTS, slopes)


def _weighed(weights: tuple[float, ...], slopes: list[Points]) -> Points:
    return functools.reduce(jnp.add, [w * k for w, k in zip(weights, slopes, strict=True) if w])


def _scan(body: Callable, start: Any, segments: Any) -> tuple[Any, Any]:
    """`jax.lax.scan`, but a single segment, the usual case, is no loop: that is a second less to trace and compile."""
    if jax.tree.leaves(segments)[0].shape[0] > 1:
        return jax.lax.scan(body, start, segments)
    end, out = body(start, jax.tree.map(lambda leaf: leaf[0], segments))
    return end, jax.tree.map(lambda leaf: leaf[None], out)


def _adaptive_path(drift: Callable, t: Times, y: Points, gap: Times, segments: int) -> Float[Array, "ends ..."]:
    """The same by diffrax, all gaps stretched to one unit interval so that they share their steps."""
    import diffrax  # only here: it takes a third of a second, and most runs do without

    def field(s: Any, y: Points, args: Any) -> Points:
        return gap[..., None] * drift(t + s * gap, y)

    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(field),
        diffrax.Dopri5(),
        t0=0.0,
        t1=1.0,
        dt0=1.0 / segments,
        y0=y,
        saveat=diffrax.SaveAt(ts=jnp.linspace(0.0, 1.0, segments + 1)),
        stepsize_controller=diffrax.PIDController(rtol=TOLERANCE, atol=TOLERANCE),
        max_steps=MOST_STEPS,
        # Most gaps take one step or two: to keep them all costs less than to solve again for the gradient.
        adjoint=diffrax.RecursiveCheckpointAdjoint(checkpoints=MOST_STEPS),
        throw=False,  # a path that is not finished is not finite, which is caught where losses are
    )
    ys = solution.ys
    assert ys is not None  # SaveAt(ts=...) always saves
    return ys


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
        flow = _matmul(flow, flow)
    return flow, noise


def _exponential(a: Array) -> Array:
    """exp(a): Taylor for a small part of it, then squarings."""
    flow = _taylor(_tamed(a / 2**DOUBLINGS))
    for _ in range(DOUBLINGS):
        flow = _matmul(flow, flow)
    return flow


def _taylor(a: Array) -> Array:
    a2 = _matmul(a, a)
    return jnp.eye(a.shape[-1], dtype=a.dtype) + a + a2 / 2 + _matmul(a2, a) / 6 + _matmul(a2, a2) / 24


def _tamed(a: Array) -> Array:
    """Feedback that is steeper than any that can be followed is taken for less steep: numbers stay finite."""
    return a * jnp.minimum(1.0, 2.0 / (1e-6 + jnp.sqrt(jnp.sum(a**2, axis=(-2, -1), keepdims=True))))


def _matmul(a: Array, b: Array) -> Array:
    """A product of small matrices as fused elementwise operations, which vectorise over the batch."""
    return jnp.sum(a[..., :, :, None] * b[..., None, :, :], axis=-2)


def _matvec(a: Array, x: Points) -> Points:
    return jnp.sum(a * x[..., None, :], axis=-1)
