"""What an agent knows or learns of how episodes end."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jaxtyping import Array, PRNGKeyArray

from ctmle.envs.base import Spec
from ctmle.training.updates import Trainer


class Survival(Trainer):
    """Gives the rate at which episodes end by themselves."""

    @abstractmethod
    def hazard(self, state: Any) -> Callable[..., Array] | None:
        """Return the rate h(t, y, u), over batches; None if episodes never end by themselves."""


@dataclass(frozen=True)
class NeverEnds(Survival):
    """Episodes last until the horizon, as in the paper."""

    def init(self, spec: Spec, key: PRNGKeyArray) -> None:
        return None

    def hazard(self, state: None) -> None:
        return None
