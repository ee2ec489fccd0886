"""The newest trajectories with the policies that drove them, in a ring of fixed capacity."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ctmle.data.trajectory import Trajectory


class History(eqx.Module):
    """Row n of the ring is that of trajectory n, n + capacity and so on; looks past `lengths` are padding."""

    times: Float[Array, "capacity looks"]
    states: Float[Array, "capacity looks observed"]
    controls: Float[Array, "capacity looks control"]
    lengths: Int[Array, " capacity"]
    policies: Any

    @staticmethod
    def empty(capacity: int, looks: int, observed: int, control: int, policy: Any) -> "History":
        return History(
            times=jnp.zeros((capacity, looks)),
            states=jnp.zeros((capacity, looks, observed)),
            controls=jnp.zeros((capacity, looks, control)),
            lengths=jnp.zeros(capacity, jnp.int32),
            policies=jax.tree.map(lambda leaf: jnp.zeros((capacity, *leaf.shape), leaf.dtype), policy),
        )

    def add(self, number: Int[Array, ""], looks: Trajectory, count: Int[Array, ""], policy: Any) -> "History":
        """With the first `count` looks of the trajectory of this number."""
        row, room = number % self.lengths.shape[0], self.times.shape[1]
        return History(
            times=self.times.at[row].set(looks.times[:room]),
            states=self.states.at[row].set(looks.states[:room]),
            controls=self.controls.at[row].set(looks.controls[:room]),
            lengths=self.lengths.at[row].set(jnp.minimum(count, room)),
            policies=jax.tree.map(lambda column, leaf: column.at[row].set(leaf), self.policies, policy),
        )

    def trajectory(self, number: int) -> tuple[Trajectory, Any]:
        """The looks of the trajectory of this number, and its policy."""
        row = number % self.lengths.shape[0]
        length = int(self.lengths[row])
        trajectory = Trajectory(
            times=jax.device_put(np.asarray(self.times[row])[:length]),
            states=jax.device_put(np.asarray(self.states[row])[:length]),
            controls=jax.device_put(np.asarray(self.controls[row])[:length]),
        )
        return trajectory, jax.tree.map(lambda column: column[row], self.policies)
