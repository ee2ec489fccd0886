"""The control that acted on a plant during an episode, as far as it is known afterwards."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ctmle.envs.base import Spec


class Drive(eqx.Module):
    """The control at any time of an episode, given the state at that time."""

    @abstractmethod
    def __call__(
        self, t: Float[Array, "*batch"], y: Float[Array, "*batch observed"]
    ) -> Float[Array, "*batch control"]: ...


class ClosedLoop(Drive):
    """A policy that saw the state at every instant, as in the paper: its control follows the unseen path."""

    policy: Any

    def __call__(self, t: Float[Array, "*batch"], y: Float[Array, "*batch observed"]) -> Float[Array, "*batch control"]:
        return self.policy(t, y)


class Recorded(Drive):
    """A control that was applied whatever the state did between looks: `values[i]` from `times[i]` on."""

    times: Float[Array, " pieces"]
    values: Float[Array, "pieces control"]

    def __call__(self, t: Float[Array, "*batch"], y: Float[Array, "*batch observed"]) -> Float[Array, "*batch control"]:
        return self.values[jnp.maximum(jnp.searchsorted(self.times, t, side="right") - 1, 0)]


def closed_loops(spec: Spec, policies: Any) -> Callable[[Array, Array], Array]:
    """Return the control law of groups of samples, each driven by its own of the stacked policies."""

    def control(t: Array, y: Array) -> Array:
        return spec.clip(eqx.filter_vmap(lambda policy, t, y: policy(t, y))(policies, t, y))

    return control
