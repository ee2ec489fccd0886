"""What a learner of the dynamics is, and all that trained parts may read of each other."""

from abc import abstractmethod
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float, Int

from ctmle.data.dataset import Dataset
from ctmle.envs.base import Spec
from ctmle.models.model import Members
from ctmle.models.world import Values, World
from ctmle.training.updates import Trainer


class Context(eqx.Module):
    """The data, the current world and the current values, for the updates of an episode."""

    spec: Spec
    data: Dataset
    world: World
    values: Values
    episode: Int[Array, ""]
    longest_gap: float = eqx.field(static=True)

    @property
    def observed(self) -> int:
        return self.spec.observation.size

    @property
    def states(self) -> Float[Array, "..."]:
        """Estimated states at the looks: with an exact sensor, the measurements."""
        return self.data.states


class Learner(Trainer):
    """Learns drift and diffusion from data."""

    @abstractmethod
    def sde(self, state: Any) -> Members:
        """Return the SDEs that are believed."""

    def constants(self, episode: int) -> dict[str, float]:
        """Return what to log of an episode that is known without measuring."""
        return {}
