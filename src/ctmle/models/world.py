"""The world that a policy is improved in, and the parts that learn it: dynamics, reward, and how episodes end."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import equinox as eqx
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ctmle.data.dataset import Dataset
from ctmle.envs.base import Env, Spec
from ctmle.models.model import Members, TrueSDE
from ctmle.registry import LEARNERS, REWARDS, SURVIVALS, Registry
from ctmle.training.updates import Trainer


class World(eqx.Module):
    """What is believed of a plant. Without a `hazard` (the rate at which episodes end) they never end by themselves."""

    sde: Members
    reward: Callable[..., Array]
    hazard: Callable[..., Array] | None = None
    plausible: Members | None = None
    """SDEs that the data leaves possible, to judge policies in; none: those that policies are improved in."""

    optimist: Any = None
    """Models that the improver may choose from (`belief.Optimist`); none: it takes `sde` as it is."""

    unit: Float[Array, ""] | None = None
    """What a reward of 1 is worth, if the reward was learned: it comes in units of the range that was measured."""

    @property
    def doubted(self) -> "World":
        """The world with all SDEs that are possible: a policy that does well in there has exploited no single one."""
        return self if self.plausible is None else replace(self, sde=self.plausible)


class Values(eqx.Module):
    """The critic V(t, y), its target V', and the time constant of the discount exp(-t / discount_time)."""

    critic: Any
    target: Any
    discount_time: float = eqx.field(static=True)


class Context(eqx.Module):
    """All that trained parts may read of each other: the data, the current world and the current values."""

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
    def states(self) -> Float[Array, "looks observed"]:
        """Estimated states at the looks: with an exact sensor, the measurements."""
        return self.data.states


class Learner(Trainer):
    """Learns drift and diffusion from data."""

    choices: ClassVar[Registry] = LEARNERS

    @abstractmethod
    def sde(self, state: Any) -> Members:
        """Return the SDEs that are believed."""

    def plausible(self, state: Any) -> Members | None:
        """Return SDEs that the data leaves possible, if they are others than those of `sde`."""
        return None

    def optimist(self, state: Any) -> Any:
        """Return the models that an improver may choose from, if it may."""
        return None

    def constants(self, episode: int) -> dict[str, float]:
        """Return what to log of an episode that is known without measuring."""
        return {}


@dataclass(frozen=True)
class KnownModel(Learner):
    """Knows the environment's own SDE (in physical coordinates, where it is an SDE)."""

    env: Env = field(hash=False, compare=False)

    def init(self, spec: Spec, key: PRNGKeyArray) -> TrueSDE:
        return TrueSDE(self.env)

    def sde(self, state: TrueSDE) -> TrueSDE:
        return state


class Reward(Trainer):
    """Gives the reward b(t, y, u) that policies are improved for."""

    choices: ClassVar[Registry] = REWARDS

    @abstractmethod
    def reward(self, state: Any) -> Callable[..., Array]:
        """Return the reward per unit of time, over batches."""

    def fits(self, spec: Spec) -> None:
        """Raise ValueError if it cannot be had of this system."""

    def unit(self, state: Any) -> Float[Array, ""] | None:
        """Return what a reward of 1 is worth, if it is something else than 1."""
        return None


class SpecReward(eqx.Module):
    """The known reward b of a spec, as a function of time, state and control."""

    spec: Spec

    def __call__(
        self, t: Float[Array, "..."], y: Float[Array, "*batch observed"], u: Float[Array, "*batch control"]
    ) -> Float[Array, "*batch"]:
        return self.spec.reward(y, u)


@dataclass(frozen=True)
class KnownReward(Reward):
    """The reward of the spec, as the paper assumes."""

    def fits(self, spec: Spec) -> None:
        if spec.state_reward is None:
            raise ValueError("the reward of this system is not known: choose --reward learned, or give its spec one")

    def init(self, spec: Spec, key: PRNGKeyArray) -> SpecReward:
        return SpecReward(spec)

    def reward(self, state: SpecReward) -> Callable[..., Array]:
        return state


class Survival(Trainer):
    """Gives the rate at which episodes end by themselves."""

    choices: ClassVar[Registry] = SURVIVALS

    @abstractmethod
    def hazard(self, state: Any) -> Callable[..., Array] | None:
        """Return the rate h(t, y, u), over batches; None if episodes never end by themselves."""

    def fits(self, spec: Spec) -> None:
        """Raise ValueError if it cannot be had of this system."""


class SpecHazard(eqx.Module):
    """The rate of ends that a spec states, as a function of time, state and control."""

    spec: Spec

    def __call__(
        self, t: Float[Array, "..."], y: Float[Array, "*batch observed"], u: Float[Array, "*batch control"]
    ) -> Float[Array, "*batch"]:
        return self.spec.hazard(y, u)


@dataclass(frozen=True)
class GivenSurvival(Survival):
    """Episodes end at the rate that the spec states."""

    def fits(self, spec: Spec) -> None:
        if spec.state_hazard is None:
            raise ValueError("the hazard of this system is not known: choose --survival learned, or never-ends")

    def init(self, spec: Spec, key: PRNGKeyArray) -> SpecHazard:
        return SpecHazard(spec)

    def hazard(self, state: SpecHazard) -> Callable[..., Array]:
        return state


@dataclass(frozen=True)
class NeverEnds(Survival):
    """Episodes last until the horizon, as in the paper."""

    def init(self, spec: Spec, key: PRNGKeyArray) -> None:
        return None

    def hazard(self, state: None) -> None:
        return None
