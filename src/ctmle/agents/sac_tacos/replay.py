"""Decisions to learn from: a ring buffer of fixed capacity, so that nothing is compiled again as it fills."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray


class Decisions(eqx.Module):
    """Transitions of the extended MDP: seen at a look, done, gained over the hold, seen at the next look.

    `discount` is exp(-beta * hold), and 0 where nothing comes after.
    """

    seen: Float[Array, "*batch inputs"]
    action: Float[Array, "*batch action"]
    reward: Float[Array, "*batch"]
    discount: Float[Array, "*batch"]
    seen_next: Float[Array, "*batch inputs"]


class Replay(eqx.Module):
    """The newest `capacity` decisions. `added` counts all that ever came in."""

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
    def size(self) -> Int[Array, ""]:
        return jnp.minimum(self.added, self.capacity)

    def add(self, decisions: Decisions, real: Bool[Array, " rows"]) -> "Replay":
        """With the `real` ones among the rows, in their order; the oldest make room."""
        number = jnp.cumsum(real) - 1
        count = jnp.sum(real)
        # Of more rows than there is room for, the last ones stay; others are sent past the end, where they are dropped.
        kept = real & (number >= count - self.capacity)
        place = jnp.where(kept, (self.added + number) % self.capacity, self.capacity)
        rows = jax.tree.map(lambda column, new: column.at[place].set(new, mode="drop"), self.rows, decisions)
        return Replay(rows, self.added + count.astype(jnp.int32))

    def sample(self, key: PRNGKeyArray, count: int) -> Decisions:
        chosen = jax.random.randint(key, (count,), 0, self.size)
        return jax.tree.map(lambda column: column[chosen], self.rows)
