"""The phases of an episode, and what an agent with a model knows between them."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ctmle.data.dataset import Dataset
from ctmle.dynamics.loop import Chunk, Span
from ctmle.envs.base import Spec
from ctmle.planning.improve import ActorCritic
from ctmle.schedules.base import Schedule


class Phase(IntEnum):
    """What an agent does next."""

    DYNAMICS = 0
    POLICY = 1
    ACT = 2
    MATCHING = 3


class Stream(IntEnum):
    """Purposes of randomness: each has its own key, so that no use of one shifts another."""

    BELIEF = 0
    ACTOR_CRITIC = 1
    LOOKS = 2
    EXPLORE = 3
    FIT = 4
    IMPROVE = 5
    MATCH = 6


class ModelBasedState(eqx.Module):
    """All that the agent knows, and where in its episode it stands."""

    spec: Spec
    key: PRNGKeyArray
    data: Dataset
    belief: Any
    """The agent's own record; `belief.ensemble` is its model."""
    actor_critic: ActorCritic
    phase: Int[Array, ""]
    step: Int[Array, ""]
    setbacks: Int[Array, ""]
    metrics: dict[str, Float[Array, ""]]


@runtime_checkable
class Updates(Protocol):
    """Updates of what a state has, on looks that are as far apart as the schedule says."""

    def __call__(self, state: ModelBasedState, schedule: Schedule, span: Span) -> Chunk[Any]: ...


@dataclass(frozen=True)
class Work:
    """One phase of updates: of what, how many, and what they measure."""

    phase: Phase
    stream: Stream
    part: Callable[[ModelBasedState], Any]
    """Of the state, what these updates train."""
    updates: Updates
    total: int
    metrics: tuple[str, ...]
