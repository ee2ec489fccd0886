"""Trajectory: the looks of one episode."""

from typing import Any

import equinox as eqx
from jaxtyping import Array, Bool, Float

from ctmle.data.drive import ClosedLoop, Drive


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
