"""Running mean and variance of what the networks see."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

LARGEST = 10.0
"""Normalised inputs are clipped to this many standard deviations."""

LEAST_SPREAD = 1e-3
"""A coordinate that hardly varies is not blown up."""


class Statistics(eqx.Module):
    """Of every input so far (Chan's update, so that batches of any size give what one pass over all would)."""

    count: Float[Array, ""]
    mean: Float[Array, " inputs"]
    squares: Float[Array, " inputs"]

    @staticmethod
    def empty(size: int) -> "Statistics":
        return Statistics(jnp.zeros(()), jnp.zeros(size), jnp.zeros(size))

    def add(self, rows: Float[Array, "rows inputs"], real: Bool[Array, " rows"]) -> "Statistics":
        """With the `real` ones among the rows."""
        weight = real[:, None].astype(rows.dtype)
        count = jnp.sum(weight)
        total = self.count + count
        mean = jnp.sum(weight * rows, axis=0) / jnp.maximum(count, 1.0)
        squares = jnp.sum(weight * (rows - mean) ** 2, axis=0)
        shift = mean - self.mean
        share = count / jnp.maximum(total, 1.0)
        return Statistics(total, self.mean + share * shift, self.squares + squares + self.count * share * shift**2)

    @property
    def spread(self) -> Float[Array, " inputs"]:
        variance = self.squares / jnp.maximum(self.count, 1.0)
        return jnp.where(self.count > 0, jnp.maximum(jnp.sqrt(variance), LEAST_SPREAD), 1.0)

    def normalise(self, inputs: Float[Array, "*batch inputs"]) -> Float[Array, "*batch inputs"]:
        return jnp.clip((inputs - self.mean) / self.spread, -LARGEST, LARGEST)
