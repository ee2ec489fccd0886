"""Trajectories with the policies that drove them: a uniform sample of all, and the newest."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ctmle.data.trajectory import Trajectory

EMPTY = -1


class History(eqx.Module):
    """The last row is the newest trajectory; the others are a uniform sample of all that were added (a reservoir).

    `numbers` says which trajectory a row holds (-1: none); looks past `lengths` are padding.
    """

    numbers: Int[Array, " rows"]
    times: Float[Array, "rows looks"]
    states: Float[Array, "rows looks observed"]
    controls: Float[Array, "rows looks control"]
    lengths: Int[Array, " rows"]
    policies: Any

    @staticmethod
    def empty(sampled: int, looks: int, observed: int, control: int, policy: Any) -> "History":
        rows = sampled + 1
        return History(
            numbers=jnp.full(rows, EMPTY, jnp.int32),
            times=jnp.zeros((rows, looks)),
            states=jnp.zeros((rows, looks, observed)),
            controls=jnp.zeros((rows, looks, control)),
            lengths=jnp.zeros(rows, jnp.int32),
            policies=jax.tree.map(lambda leaf: jnp.zeros((rows, *leaf.shape), leaf.dtype), policy),
        )

    def add(
        self, number: Int[Array, ""], looks: Trajectory, count: Int[Array, ""], policy: Any, key: PRNGKeyArray
    ) -> "History":
        """Add the first `count` looks of trajectory `number` (from 0). Each has the same chance to stay."""
        rows, room = self.numbers.shape[0], self.times.shape[1]
        sampled = rows - 1
        drawn = jax.random.randint(key, (), 0, jnp.maximum(number + 1, 1))
        place = jnp.where(number < sampled, number, drawn)
        place = jnp.where(place < sampled, place, rows)  # past the end, where it is dropped

        def put(column: Array, leaf: Array) -> Array:
            return column.at[rows - 1].set(leaf).at[place].set(leaf, mode="drop")

        return History(
            numbers=put(self.numbers, number),
            times=put(self.times, looks.times[:room]),
            states=put(self.states, looks.states[:room]),
            controls=put(self.controls, looks.controls[:room]),
            lengths=put(self.lengths, jnp.minimum(count, room)),
            policies=jax.tree.map(put, self.policies, policy),
        )

    def row(self, row: int) -> tuple[Trajectory, Any]:
        """Return the looks of one row, and its policy."""
        length = int(self.lengths[row])
        trajectory = Trajectory(
            times=jax.device_put(np.asarray(self.times[row])[:length]),
            states=jax.device_put(np.asarray(self.states[row])[:length]),
            controls=jax.device_put(np.asarray(self.controls[row])[:length]),
        )
        return trajectory, jax.tree.map(lambda column: column[row], self.policies)
