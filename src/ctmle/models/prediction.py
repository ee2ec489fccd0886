"""Predictions of consecutive looks by an ODE (Yildiz et al., 2021, "Continuous-time model-based RL")."""

from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ctmle.data.batches import Sequences
from ctmle.data.drive import ControlLaw
from ctmle.envs.base import Spec
from ctmle.models.integrate import SolverKind, mean_path
from ctmle.models.model import SDE

Residuals = Float[Array, "groups predicted observed"]
OdeControlKind = Literal["interpolated", "closed-loop"]


def match_slopes(spec: Spec, sde: SDE, batch: Sequences) -> Residuals:
    """Return measurements minus predictions of each gap by itself: by the drift half-way between its two looks."""
    rise = spec.observation.residual(batch.y[:, 1:], batch.y[:, :-1])
    half_way = batch.y[:, :-1] + 0.5 * rise
    control = 0.5 * (batch.u[:, 1:] + batch.u[:, :-1])
    return rise - jnp.diff(batch.t)[..., None] * sde.drift(half_way, control)


def predict_looks(
    spec: Spec, sde: SDE, batch: Sequences, *, segments: int, solver: SolverKind, control: OdeControlKind
) -> Residuals:
    """Return measurements minus predictions of all looks from the first one: the ODE is solved through the sequence.

    Each gap has `segments` steps.
    """
    curve = interpolated(spec, batch) if control == "interpolated" else None

    def next_look(y: Array, interval: tuple[Array, Array]) -> tuple[Array, Array]:
        t, end = interval
        law = batch.drives.over(t, end).control(spec, curve)
        y = mean_path(lambda t, y: sde.drift(y, law(t, y)), t, y, end - t, segments, solver)[-1]
        return y, y

    _, later = jax.lax.scan(next_look, batch.y[:, 0], (batch.t[:, :-1].T, batch.t[:, 1:].T))
    return spec.observation.residual(batch.y[:, 1:], jnp.swapaxes(later, 0, 1))


def interpolated(spec: Spec, batch: Sequences) -> ControlLaw:
    """Return controls on a smooth curve through the recorded ones of each sequence: cubic pieces with shared slopes.

    Each sequence has its own curve. (The public code evaluates the first one's for all of them: docs/enode.md.)
    """

    def at(values: Array, piece: Array) -> Array:
        return jnp.take_along_axis(values, piece[:, None, None], axis=1)[:, 0]

    def control(t: Float[Array, " groups"], y: Float[Array, "groups observed"]) -> Float[Array, "groups control"]:
        piece = jnp.sum(t[:, None] >= batch.t[:, 1:-1], axis=1)
        start, end = (at(batch.t[..., None], p) for p in (piece, piece + 1))
        gap = jnp.maximum(end - start, 1e-6)
        s = (t[:, None] - start) / gap
        here, there = at(batch.u, piece), at(batch.u, piece + 1)
        leaving, arriving = gap * at(batch.u_slope, piece), gap * at(batch.u_slope, piece + 1)
        swing = (1 - s) * (leaving - (there - here)) + s * ((there - here) - arriving)
        return spec.clip((1 - s) * here + s * there + s * (1 - s) * swing)

    return control
