"""How a state is measured at a look."""

from abc import abstractmethod

import equinox as eqx
from jaxtyping import Array, Float, PRNGKeyArray


class Sensor(eqx.Module):
    """Measurement of an observed state at a look."""

    @abstractmethod
    def measure(self, y: Float[Array, "*batch observed"], key: PRNGKeyArray) -> Float[Array, "*batch observed"]:
        """Draw a measurement of the state."""


class Exact(Sensor):
    """The state itself, without noise."""

    def measure(self, y: Float[Array, "*batch observed"], key: PRNGKeyArray) -> Float[Array, "*batch observed"]:
        return y
