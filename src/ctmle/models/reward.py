"""What an agent knows or learns of the reward."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jaxtyping import Array, PRNGKeyArray

from ctmle.envs.base import Spec
from ctmle.models.world import SpecReward
from ctmle.training.updates import Trainer


class Reward(Trainer):
    """Gives the reward b(t, y, u) that policies are improved for."""

    @abstractmethod
    def reward(self, state: Any) -> Callable[..., Array]:
        """Return the reward per unit of time, over batches."""


@dataclass(frozen=True)
class KnownReward(Reward):
    """The reward of the spec, as the paper assumes."""

    def init(self, spec: Spec, key: PRNGKeyArray) -> SpecReward:
        return SpecReward(spec)

    def reward(self, state: SpecReward) -> Callable[..., Array]:
        return state
