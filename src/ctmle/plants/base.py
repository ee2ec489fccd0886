"""What is driven, and what drives it: a controller that sees every instant, or one that acts on looks alone."""

from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PRNGKeyArray

from ctmle.data.trajectory import Trajectory
from ctmle.envs.base import Spec
from ctmle.schedules.base import DecidedLooks, Looks


class Controller(eqx.Module):
    """Anything that a plant can be driven by."""


class Continuous(Controller):
    """Sees the state at every instant, as in the paper; looks are only what the learner records.

    On a plant that holds its controls it sees a measurement at every tick.
    """

    @abstractmethod
    def __call__(
        self, t: Float[Array, "*batch"], y: Float[Array, "*batch observed"]
    ) -> Float[Array, "*batch control"]: ...


class OnLooks(Controller):
    """Sees the state only when it is looked at. Between looks it acts on its memory, any pytree of arrays."""

    @abstractmethod
    def begin(self) -> Any:
        """Return the memory before the first look."""

    @abstractmethod
    def look(self, memory: Any, t: Float[Array, ""], y: Float[Array, " observed"]) -> Any:
        """Return the memory after a look."""

    @abstractmethod
    def control(self, memory: Any, t: Float[Array, ""]) -> Float[Array, " control"]:
        """Return the control at a time after the last look."""


class DecidesLooks(OnLooks):
    """Decides at each look when the next one is: after a whole number of ticks, at least one.

    `discount_rate` is beta in the reward of a decision, the integral of exp(-beta s) b until the next look.
    """

    tick: eqx.AbstractVar[float]
    discount_rate: eqx.AbstractVar[float]

    @abstractmethod
    def next_look(self, memory: Any, t: Float[Array, ""]) -> Float[Array, ""]:
        """Return the seconds from the look at time t to the next one."""


class Decision(NamedTuple):
    """A control to hold, and the seconds until the next look."""

    control: Float[Array, " control"]
    hold: Float[Array, ""]


class Holds(DecidesLooks):
    """Holds a control until the next look; `decide` chooses both.

    Drive a plant of your own with it: look, `decide`, hold the control for the seconds it names, look again.
    """

    control_size: eqx.AbstractVar[int]

    @abstractmethod
    def decide(self, t: Float[Array, ""], y: Float[Array, " observed"]) -> Decision:
        """Return the decision at a look: a pure function, whose randomness comes from a key inside the controller."""

    def begin(self) -> Decision:
        return Decision(jnp.zeros(self.control_size), jnp.zeros(()))

    def look(self, memory: Decision, t: Float[Array, ""], y: Float[Array, " observed"]) -> Decision:
        return self.decide(t, y)

    def control(self, memory: Decision, t: Float[Array, ""]) -> Float[Array, " control"]:
        return memory.control

    def next_look(self, memory: Decision, t: Float[Array, ""]) -> Float[Array, ""]:
        return memory.hold


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

        A plant that knows its states returns them without the noise of its sensor: what counts is where it was.
        A controller that decides its looks is scored at each of its ticks instead.
        """
