"""Where a drift leads: methods that integrate it."""

import functools
from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Times = Float[Array, "*batch samples"]
Points = Float[Array, "*batch samples observed"]

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

    _, later = short_scan(segment, y, jnp.arange(segments, dtype=y.dtype))
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


def short_scan(body: Callable, start: Any, segments: Any) -> tuple[Any, Any]:
    """`jax.lax.scan`, but a single segment, the usual case, is no loop: that is a second less to trace and compile."""
    if jax.tree.leaves(segments)[0].shape[0] > 1:
        return jax.lax.scan(body, start, segments)
    end, out = body(start, jax.tree.map(lambda leaf: leaf[0], segments))
    return end, jax.tree.map(lambda leaf: leaf[None], out)
