"""What is driven: agents and runs know plants and specs, never equations."""

from abc import abstractmethod

import equinox as eqx
from jaxtyping import Array, Key, PRNGKeyArray

from ctmle.data.trajectory import Trajectory
from ctmle.envs.base import Spec
from ctmle.plants.controller import Controller
from ctmle.schedules.base import DecidedLooks, Looks


class Plant(eqx.Module):
    """A system that a controller can drive for an episode."""

    @property
    @abstractmethod
    def spec(self) -> Spec:
        """What an agent may know of the plant."""

    @abstractmethod
    def run(
        self, controller: Controller, looks: Looks | DecidedLooks, key: PRNGKeyArray, what: str = "a trajectory"
    ) -> Trajectory:
        """Drive one episode and return what was looked at. `what` names the episode in error messages."""

    @abstractmethod
    def run_many(self, controller: Controller, looks: Looks, keys: Key[Array, " trajectories"]) -> Trajectory:
        """Drive one test episode per key; arrays get a leading axis. Looks are for scoring: the controller sees none.

        A controller that decides its looks is scored at each of its ticks instead.
        """
