"""Decisions to learn from, in a ring buffer of fixed capacity, and statistics of what the networks see."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

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


class Replay(eqx.Module):
    """The newest `capacity` decisions. `added` counts all that were ever added."""

    rows: Decisions
    added: Int[Array, ""]

    @staticmethod
    def empty(capacity: int, inputs: int, action: int) -> "Replay":
        rows = Decisions(
            seen=jnp.zeros((capacity, inputs)),
            action=jnp.zeros((capacity, action)),
            reward=jnp.zeros(capacity),
            discount=jnp.zeros(capacity),
            seen_next=jnp.zeros((capacity, inputs)),
        )
        return Replay(rows, jnp.zeros((), jnp.int32))

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
        # If there are more rows than room, the last ones stay; others are sent past the end, where they are dropped.
        kept = real & (number >= count - self.capacity)
        place = jnp.where(kept, (self.added + number) % self.capacity, self.capacity)
        rows = jax.tree.map(lambda column, new: column.at[place].set(new, mode="drop"), self.rows, decisions)
        return Replay(rows, self.added + count.astype(jnp.int32))

    def sample(self, key: PRNGKeyArray, count: int) -> Decisions:
        chosen = jax.random.randint(key, (count,), 0, self.size)
        return jax.tree.map(lambda column: column[chosen], self.rows)


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
