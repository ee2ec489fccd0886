"""The contract of every agent: propose a policy and when to look; observe what was seen."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from jaxtyping import Array, Key, PRNGKeyArray

from ctmle.data.trajectory import Trajectory
from ctmle.envs.base import Spec
from ctmle.plants.base import Controller
from ctmle.plants.simulated import SimulatedSDE
from ctmle.schedules.base import DecidedLooks, Looks, Schedule
from ctmle.settings import Part


@dataclass(frozen=True)
class Progress:
    """How far an agent is with its work."""

    episode: int
    """Number n of the episode that it works on; 0 while it still gathers its initial data."""
    stage: str
    """Name of its next stage of updates; "act" if it is ready to drive a plant."""
    done: int
    """Updates done in this episode."""
    total: int
    """All updates of this episode."""
    trajectories: int
    """Trajectories observed."""
    looks: int
    """Looks spent."""
    metrics: dict[str, float]
    """Means of what its last updates measured."""


@dataclass(frozen=True)
class Past:
    """A trajectory that the agent drove, and the policy that drove it."""

    episode: int
    policy: Any
    trajectory: Trajectory
    sampled: bool = True
    """True if it belongs to a uniform sample of all that the agent drove."""


@dataclass(frozen=True)
class Experience:
    """The data that a policy was trained on."""

    seconds: float
    looks: int


class Agent(Part):
    """Drive any plant with two calls: ask `propose`, run the policy, look at the times, hand the looks to `observe`.

    `advance` is one bounded piece of the work inside `propose`: callers that want progress, or a checkpoint in the
    middle of a long stage, call it until `ready`; `propose` does so by itself.
    """

    knows_horizon: ClassVar[bool] = False
    """True if its policies see the time to go, so that tests must last as long as episodes."""
    practises: ClassVar[bool] = False
    """True if it has `practise`."""

    trajectories_per_episode: int

    @abstractmethod
    def init(self, spec: Spec, key: PRNGKeyArray) -> Any: ...

    @abstractmethod
    def ready(self, state: Any) -> bool: ...

    @abstractmethod
    def advance(self, state: Any, schedule: Schedule) -> Any: ...

    @abstractmethod
    def propose(self, state: Any, schedule: Schedule) -> tuple[Any, Any, Looks | DecidedLooks]: ...

    @abstractmethod
    def observe(self, state: Any, trajectory: Trajectory) -> Any: ...

    @abstractmethod
    def progress(self, state: Any) -> Progress: ...

    @abstractmethod
    def experience(self, state: Any) -> Experience:
        """Return the data that the policy of an agent that is ready was trained on."""

    @abstractmethod
    def policy(self, state: Any) -> Controller:
        """Return the current policy, without exploration."""

    @abstractmethod
    def history(self, state: Any) -> list[Past]:
        """Return what its episodes drove, from old to new (initial data left out); at least the last one."""

    @abstractmethod
    def parts(self, state: Any) -> dict[str, Any]:
        """Return the trained parts by name: each is saved in a file of its own."""

    def flaw(self, state: Any) -> str | None:
        """Say what is wrong with the counters of a state from a file if they do not fit its arrays; else None."""
        return None

    def fits(self, spec: Spec, schedule: Schedule) -> None:
        """Raise ValueError if the agent's settings do not fit the plant or the schedule."""

    def practise(self, state: Any, plant: SimulatedSDE, keys: Key[Array, " trajectories"]) -> Any:
        """Act and learn on a simulated plant in one compiled loop, with nothing to report in between."""
        raise AssertionError(f"{type(self).__name__} does not practise")
