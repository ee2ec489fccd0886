"""The world that a policy is improved in: SDEs, a reward, and whether episodes end."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from ctmle.envs.base import Spec
from ctmle.models.model import Members


class World(eqx.Module):
    """What is believed of a plant. Without a `hazard` (the rate at which episodes end) they never end by themselves."""

    sde: Members
    reward: Callable[..., Array]
    hazard: Callable[..., Array] | None = None


class SpecReward(eqx.Module):
    """The known reward b of a spec, as a function of time, state and control."""

    spec: Spec

    def __call__(
        self, t: Float[Array, "..."], y: Float[Array, "*batch observed"], u: Float[Array, "*batch control"]
    ) -> Float[Array, "*batch"]:
        return self.spec.reward(y, u)


class Values(eqx.Module):
    """The critic V(t, y), its target V', and the time constant of the discount exp(-t / discount_time)."""

    critic: Any
    target: Any
    discount_time: float = eqx.field(static=True)
