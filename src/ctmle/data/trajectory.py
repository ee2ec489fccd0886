"""Trajectory: the looks of one episode, and checks of them before anything is learned."""

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Bool, Float

from ctmle.data.drive import ClosedLoop, Drive
from ctmle.training.failures import NotFinite


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


def check_looks(trajectory: Trajectory) -> None:
    """Raise ValueError for too few looks, NotFinite for a look with NaN or inf, simulated or real."""
    looks, least = trajectory.looks, 3 if trajectory.random else 2
    if looks < least or (trajectory.random and looks % 2 == 0):
        kind = "grid looks with a random look between each two, so 3, 5, 7, ..." if trajectory.random else "2 or more"
        raise ValueError(f"a trajectory with {looks} looks has no gap to learn from: it needs {kind}")
    columns = {"time": trajectory.times, "state": trajectory.states, "control": trajectory.controls}
    for name, values in columns.items():
        bad = np.flatnonzero(~np.isfinite(np.asarray(values).reshape(looks, -1)).all(axis=1))
        if bad.size:
            raise NotFinite(f"the {name} of look {bad[0]}", "in this trajectory", "fix the look, or leave it out")
