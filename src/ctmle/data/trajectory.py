"""Trajectory: the looks of one episode, and checks of them before anything is learned."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ctmle.data.drive import ClosedLoop, Drive, Recorded
from ctmle.envs.base import Spec
from ctmle.training.failures import NotFinite

ROUNDING = 1e-5
"""Seconds, and share of a length, by which times may miss an end because they are rounded."""

TOLERANCE = 1e-3
"""Share of its range by which a control may be outside its bounds."""


class Trajectory(eqx.Module):
    """Looks at one episode: times, measured states, the controls at those times, and what drove the plant.

    `drive` may be given as the policy that acted in closed loop. `random` says that grid looks and random looks
    alternate (see `Looks`). `rewards`, where they were measured, are the integrals of the reward over each gap,
    discounted to its start at the `discount_rate` of a controller that decides its looks. `ended` says that the plant
    ended the episode by itself after the last look.
    """

    times: Float[Array, "*batch looks"]
    states: Float[Array, "*batch looks observed"]
    controls: Float[Array, "*batch looks control"]
    drive: Drive | None
    random: bool = eqx.field(static=True)
    rewards: Float[Array, "*batch gaps"] | None
    ended: bool | Bool[Array, "*batch"]

    def __init__(
        self,
        times: Any,
        states: Any,
        controls: Any,
        drive: Any = None,
        random: bool = False,
        rewards: Any = None,
        ended: Any = False,
    ):
        self.times, self.states, self.controls = times, states, controls
        self.drive = drive if drive is None or isinstance(drive, Drive) else ClosedLoop(drive)
        self.random, self.rewards, self.ended = random, rewards, ended

    @property
    def looks(self) -> int:
        return self.times.shape[-1]

    @property
    def policy(self) -> Any:
        """The policy that drove the plant in closed loop, if one did."""
        return self.drive.policy if isinstance(self.drive, ClosedLoop) else None


def checked(trajectory: Trajectory, spec: Spec, seconds: float) -> Trajectory:
    """Return a trajectory as agents learn from it, its numbers in the precision that JAX computes in.

    This is the one list of what `observe` refuses. Raises ValueError, or NotFinite, which names the entry and the fix:
    arrays of the wrong size or without numbers, NaN or inf, fewer than two looks (with random looks, other than 3, 5,
    7, ...), times that do not start at 0, increase strictly and end within the episode's `seconds`, controls outside
    their bounds, rewards that do not fit the gaps, and drives that do not fit the plant.
    """
    if not isinstance(trajectory, Trajectory):
        raise ValueError(f"observe takes a ctmle.data.Trajectory, not {type(trajectory).__name__}")
    if not isinstance(trajectory.random, bool):
        raise ValueError(f"random must be True or False, not {trajectory.random!r}")
    looks = len(_numbers("times", trajectory.times, ("looks",)))
    least, odd = (3, looks % 2 == 0) if trajectory.random else (2, False)
    if looks < least or odd:
        kind = "grid looks with a random look between each two, so 3, 5, 7, ..." if trajectory.random else "2 or more"
        raise ValueError(f"times: a trajectory with {looks} looks has no gap to learn from: it needs {kind}")
    states = _numbers("states", trajectory.states, (looks, spec.observation.size), "times")
    controls = _numbers("controls", trajectory.controls, (looks, spec.control_size), "times")
    times = _times("times", trajectory.times, looks)
    if abs(times[0]) > ROUNDING or times[-1] > seconds * (1 + ROUNDING) + ROUNDING:
        raise ValueError(
            f"the times of a trajectory must go from 0 to at most {seconds:g} s, the length of an episode, not from"
            f" {times[0]:g} to {times[-1]:g}"
        )
    _within_bounds("controls", controls, spec)
    rewards = trajectory.rewards
    if rewards is not None:
        rewards = jax.device_put(_numbers("rewards", rewards, (looks - 1,), "times but the last"))
    if not isinstance(trajectory.ended, bool | np.bool_) and np.asarray(trajectory.ended).dtype != bool:
        raise ValueError(f"ended must be True or False, not {trajectory.ended!r}")
    times, states, controls = map(jax.device_put, (times, states, controls))
    drive = _checked_drive(trajectory.drive, spec)
    return Trajectory(times, states, controls, drive, trajectory.random, rewards, trajectory.ended)


def _checked_drive(drive: Any, spec: Spec) -> Any:
    if isinstance(drive, Recorded):
        pieces = len(_numbers("drive.times", drive.times, ("pieces",)))
        times = _times("drive.times", drive.times, pieces)
        values = _numbers("drive.values", drive.values, (pieces, spec.control_size), "drive.times")
        if pieces == 0 or times[0] > ROUNDING:
            raise ValueError("drive.times must start at 0 or before: the control that acts first is not known")
        _within_bounds("drive.values", values, spec)
        return Recorded(jax.device_put(times), jax.device_put(values))
    if isinstance(drive, ClosedLoop) and not callable(drive.policy):
        kind = type(drive.policy).__name__
        raise ValueError(f"drive must be a policy(t, y) or Recorded(times, controls), not {kind}")
    return drive


def _numbers(name: str, values: Any, shape: tuple[int | str, ...], rows: str = "") -> np.ndarray:
    """Return an array of floating-point numbers of this shape; a name in it stands for any size.

    `rows` names the entry that says how many rows there are.
    """
    try:
        found = np.asarray(values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be an array of numbers, not {type(values).__name__}") from error
    if not (np.issubdtype(found.dtype, np.integer) or np.issubdtype(found.dtype, np.floating)):
        raise ValueError(f"{name} must be an array of numbers, not of {found.dtype}")
    wanted = tuple(n if isinstance(w, str) else w for w, n in zip(shape, found.shape, strict=False))
    if found.ndim != len(shape) or found.shape != wanted:
        why = f", a row for each entry of {rows}" if rows else ""
        raise ValueError(f"{name} must have the shape [{', '.join(map(str, shape))}]{why}, not {list(found.shape)}")
    with np.errstate(over="ignore"):
        found = found.astype(jnp.result_type(float))
    bad = np.argwhere(~np.isfinite(found))
    if bad.size:
        where = "" if found.ndim == 1 else f", coordinate {bad[0][1]},"
        raise NotFinite(f"{name}: look {bad[0][0]}{where}", "in this trajectory", "fix the look, or leave it out")
    return found


def _times(name: str, values: Any, count: int) -> np.ndarray:
    times = _numbers(name, values, (count,))
    late = np.flatnonzero(np.diff(times) <= 0)
    if late.size:
        first, second = times[late[0]], times[late[0] + 1]
        raise ValueError(f"{name} must increase strictly, but number {late[0] + 1} is {second:g} after {first:g}")
    return times


def _within_bounds(name: str, controls: np.ndarray, spec: Spec) -> None:
    low, high = np.asarray(spec.control_low), np.asarray(spec.control_high)
    outside = np.argwhere((controls < low - TOLERANCE * (high - low)) | (controls > high + TOLERANCE * (high - low)))
    if outside.size:
        row, column = outside[0]
        raise ValueError(
            f"{name}: number {row}, control {column}, is {controls[row, column]:g}, outside its bounds {low[column]:g}"
            f" to {high[column]:g}: record the control that acted, after limits"
        )
