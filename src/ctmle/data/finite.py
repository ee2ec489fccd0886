"""Checks of what a plant reports, before anything is learned from it."""

import numpy as np

from ctmle.data.trajectory import Trajectory
from ctmle.training.failures import NotFinite


def check_looks(trajectory: Trajectory) -> None:
    """Raise ValueError for too few looks, NotFinite for a look with NaN or inf, simulated or real."""
    looks, least = trajectory.looks, 3 if trajectory.random else 2
    if looks < least or (trajectory.random and looks % 2 == 0):
        kind = "grid looks with a random look between each two, so 3, 5, 7, ..." if trajectory.random else "2 or more"
        raise ValueError(f"a trajectory with {looks} looks has no gap to learn from: it needs {kind}")
    for name, values in (
        ("time", np.asarray(trajectory.times)[:, None]),
        ("state", trajectory.states),
        ("control", trajectory.controls),
    ):
        bad = np.flatnonzero(~np.isfinite(np.asarray(values)).all(axis=1))
        if bad.size:
            raise NotFinite(f"the {name} of look {bad[0]}", "in this trajectory", "fix the look, or leave it out")
