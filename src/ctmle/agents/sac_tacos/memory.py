"""The memory of the agent: decisions to learn from, statistics of its inputs, trajectories with their policies."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ctmle.agents.kept import put, repeated
from ctmle.data.trajectory import Trajectory

LARGEST = 10.0
"""Normalised inputs are clipped to this many standard deviations."""

LEAST_SPREAD = 1e-3
"""Smallest standard deviation to divide by."""


class Decisions(eqx.Module):
    """Transitions of the extended MDP: inputs at a look, action, reward over the hold, inputs at the next look.

    `discount` is exp(-beta * hold), and 0 at the end.
    """

    seen: Float[Array, "*batch inputs"]
    action: Float[Array, "*batch action"]
    reward: Float[Array, "*batch"]
    discount: Float[Array, "*batch"]
    seen_next: Float[Array, "*batch inputs"]


class Statistics(eqx.Module):
    """Mean and variance of every input so far (Chan's update: batches of any size give what one pass would)."""

    count: Float[Array, ""]
    mean: Float[Array, " inputs"]
    squares: Float[Array, " inputs"]

    @staticmethod
    def empty(size: int) -> "Statistics":
        return Statistics(jnp.zeros(()), jnp.zeros(size), jnp.zeros(size))

    def add(self, rows: Float[Array, "rows inputs"], real: Bool[Array, " rows"]) -> "Statistics":
        """Include the `real` ones among the rows."""
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


class Replay(eqx.Module):
    """The newest `capacity` decisions. `added` counts all that were ever added; `statistics` are of their inputs."""

    rows: Decisions
    added: Int[Array, ""]
    statistics: Statistics

    @staticmethod
    def empty(capacity: int, inputs: int, action: int) -> "Replay":
        row = Decisions(jnp.zeros(inputs), jnp.zeros(action), jnp.zeros(()), jnp.zeros(()), jnp.zeros(inputs))
        return Replay(repeated(row, capacity), jnp.zeros((), jnp.int32), Statistics.empty(inputs))

    @property
    def capacity(self) -> int:
        return self.rows.reward.shape[0]

    @property
    def observed(self) -> int:
        """Size of the inputs, which evidence of NaN or inf consists of."""
        return self.rows.seen.shape[-1]

    @property
    def size(self) -> Int[Array, ""]:
        return jnp.minimum(self.added, self.capacity)

    def add(self, decisions: Decisions, real: Bool[Array, " rows"]) -> "Replay":
        """Add the `real` ones among the rows, in their order; they replace the oldest."""
        number = jnp.cumsum(real) - 1
        count = jnp.sum(real)
        # If there are more rows than room, the last ones stay.
        kept = real & (number >= count - self.capacity)
        places = jnp.where(kept, (self.added + number) % self.capacity, self.capacity)
        statistics = self.statistics.add(decisions.seen, real)
        return Replay(put(self.rows, places, decisions), self.added + count.astype(jnp.int32), statistics)

    def sample(self, key: PRNGKeyArray, count: int) -> Decisions:
        chosen = jax.random.randint(key, (count,), 0, self.size)
        return jax.tree.map(lambda column: column[chosen], self.rows)


class Driven(eqx.Module):
    """A trajectory with the policy that drove it. Looks past `length` are padding."""

    length: Int[Array, "*rows"]
    times: Float[Array, "*rows looks"]
    states: Float[Array, "*rows looks observed"]
    controls: Float[Array, "*rows looks control"]
    policy: Any

    @staticmethod
    def empty(looks: int, observed: int, control: int, policy: Any) -> "Driven":
        columns = (jnp.zeros(looks), jnp.zeros((looks, observed)), jnp.zeros((looks, control)))
        return Driven(jnp.zeros((), jnp.int32), *columns, policy)

    @staticmethod
    def of(looks: Trajectory, count: Int[Array, ""], room: int, policy: Any) -> "Driven":
        """Return the first `count` looks, as far as there is room."""
        columns = (looks.times[:room], looks.states[:room], looks.controls[:room])
        return Driven(jnp.minimum(count, room), *columns, policy)

    @property
    def room(self) -> int:
        """Looks that there is room for."""
        return self.times.shape[-1]

    @property
    def trajectory(self) -> Trajectory:
        """The looks, each once."""
        length = int(self.length)
        columns = (np.asarray(column)[:length] for column in (self.times, self.states, self.controls))
        return Trajectory(*map(jax.device_put, columns))
