"""The contract of every agent: propose a policy and when to look; observe what was seen."""

from typing import Any, Protocol, runtime_checkable

from jaxtyping import PRNGKeyArray

from ctmle.data.trajectory import Trajectory
from ctmle.envs.base import Spec
from ctmle.schedules.base import Looks, Schedule


@runtime_checkable
class Agent(Protocol):
    """Drive any plant with two calls: ask `propose`, run the policy, look at the times, hand the looks to `observe`.

    `advance` is one bounded piece of the work inside `propose`: whoever wants progress, or a checkpoint in the middle
    of a long phase, calls it until `ready`; `propose` does so by itself.
    """

    def init(self, spec: Spec, key: PRNGKeyArray) -> Any: ...
    def ready(self, state: Any) -> bool: ...
    def advance(self, state: Any, schedule: Schedule) -> Any: ...
    def propose(self, state: Any, schedule: Schedule) -> tuple[Any, Any, Looks]: ...
    def observe(self, state: Any, trajectory: Trajectory) -> Any: ...
