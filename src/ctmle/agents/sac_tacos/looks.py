"""What comes in from a plant: checked, and brought to a shape that compiles once."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ctmle.data.finite import check_looks
from ctmle.data.trajectory import Trajectory
from ctmle.envs.base import Spec


def check_decisions(trajectory: Trajectory, spec: Spec) -> None:
    """Raises ValueError, with what to mend, for a trajectory that cannot have come from this plant."""
    check_looks(trajectory)
    size, gaps = spec.observation.size, trajectory.looks - 1
    if np.any(np.diff(np.asarray(trajectory.times)) <= 0):
        raise ValueError("the times of a trajectory must increase strictly")
    if trajectory.states.shape[-1] != size:
        raise ValueError(
            f"this trajectory has {trajectory.states.shape[-1]} observed coordinates, the plant has {size}"
        )
    if trajectory.rewards is not None and trajectory.rewards.shape[0] != gaps:
        raise ValueError(
            f"{trajectory.looks} looks have {gaps} gaps between them,"
            f" but there are {trajectory.rewards.shape[0]} rewards: give one for each gap"
        )
    if trajectory.rewards is not None and not np.all(np.isfinite(trajectory.rewards)):
        raise ValueError("a reward of this trajectory is not a finite number: mend it, or leave the rewards out")


def padded(trajectory: Trajectory, decisions: int) -> Trajectory:
    """With room for a multiple of `decisions`, so that the number of looks compiles nothing anew."""
    missing = -(trajectory.looks - 1) % decisions

    def pad(column: Array) -> Array:
        return jnp.asarray(np.pad(np.asarray(column), [(0, missing)] + [(0, 0)] * (column.ndim - 1), mode="edge"))

    return Trajectory(
        times=pad(trajectory.times),
        states=pad(trajectory.states),
        controls=pad(trajectory.controls),
        rewards=None if trajectory.rewards is None else pad(trajectory.rewards),
    )
