"""The contract of every agent: propose a policy and when to look; observe what was seen."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Array, Key, PRNGKeyArray

from ctmle.data.trajectory import Trajectory
from ctmle.envs.base import Env, Spec
from ctmle.envs.observation import ObservationKind
from ctmle.planning.rollout import World
from ctmle.schedules.base import DecidedLooks, Looks, Schedule


@dataclass(frozen=True)
class Standing:
    """Where an agent stands in its work."""

    episode: int
    """The number n of the episode that it works on; 0 while it still gathers its initial data."""
    phase: str
    """What it does next."""
    done: int
    """Updates done in this episode, ..."""
    total: int
    """... of how many."""
    trajectories: int
    """How many it has observed."""
    looks: int
    """How many looks it has spent."""
    metrics: dict[str, float]
    """What its last updates measured."""


@dataclass(frozen=True)
class Past:
    """A trajectory that the agent drove, and the policy that drove it."""

    episode: int
    policy: Any
    trajectory: Trajectory


@runtime_checkable
class Agent(Protocol):
    """Drive any plant with two calls: ask `propose`, run the policy, look at the times, hand the looks to `observe`.

    `advance` is one bounded piece of the work inside `propose`: whoever wants progress, or a checkpoint in the middle
    of a long phase, calls it until `ready`; `propose` does so by itself.
    """

    def init(self, spec: Spec, key: PRNGKeyArray) -> Any: ...
    def ready(self, state: Any) -> bool: ...
    def advance(self, state: Any, schedule: Schedule) -> Any: ...
    def propose(self, state: Any, schedule: Schedule) -> tuple[Any, Any, Looks | DecidedLooks]: ...
    def observe(self, state: Any, trajectory: Trajectory) -> Any: ...

    def standing(self, state: Any) -> Standing: ...

    def policy(self, state: Any) -> Any:
        """The current policy, without exploration."""
        ...

    def history(self, state: Any) -> list[Past]:
        """What its episodes drove, from old to new (initial data left out); at least the last one."""
        ...

    def parts(self, state: Any) -> dict[str, Any]:
        """The trained parts, by name: each is kept in a file of its own."""
        ...


@runtime_checkable
class Practising(Agent, Protocol):
    """An agent that can act and learn on a simulated plant in one compiled loop, when nobody looks in between."""

    def practise(
        self, state: Any, env: Env, keys: Key[Array, " trajectories"], *, step: float, observation: ObservationKind
    ) -> Any: ...


@runtime_checkable
class ModelBased(Agent, Protocol):
    """An agent that believes in an SDE."""

    def world(self, state: Any) -> World: ...
