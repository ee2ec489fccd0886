"""Starts of episodes, where all that is known of them is where episodes started."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ctmle.data.dataset import Dataset
from ctmle.envs.base import Spec


class FirstLooks(eqx.Module):
    """Draws one of the states at which episodes of a dataset started."""

    states: Float[Array, "episodes state"]
    count: Int[Array, ""]

    def __call__(self, key: PRNGKeyArray) -> Float[Array, " state"]:
        return self.states[jax.random.randint(key, (), 0, jnp.maximum(self.count, 1))]


def with_starts(spec: Spec, data: Dataset) -> Spec:
    """Return a spec that knows how episodes start: its own way, or as those of a dataset did."""
    if spec.state_reset is not None:
        return spec
    return replace(spec, state_reset=FirstLooks(spec.observation.decode(data.states[data.first]), data.count))
