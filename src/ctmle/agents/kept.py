"""A uniform sample of what an agent drove, and the newest: for policies that a run gives when it is over."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

EMPTY = -1
"""The number of a row that is not there."""


class Kept(eqx.Module):
    """Rows of arrays, one for each of some trajectories: a uniform sample of all (a reservoir), and the newest last.

    `numbers` says which trajectory a row belongs to (-1: none).
    """

    numbers: Int[Array, "*rows"]
    rows: Any

    @staticmethod
    def empty(sampled: int, like: Any) -> "Kept":
        """Make room for a sample of this size, and the newest, of rows that look like this one."""
        return repeated(Kept(jnp.asarray(EMPTY, jnp.int32), like), sampled + 1)

    def add(self, number: Int[Array, ""], row: Any, key: PRNGKeyArray) -> "Kept":
        """Add the row of trajectory `number`, if that is not negative. Each is as likely to stay."""
        count = len(self.numbers)
        newest = count - 1
        drawn = jax.random.randint(key, (), 0, jnp.maximum(number + 1, 1))
        place = jnp.where(number < newest, number, drawn)
        sampled = (number >= 0) & (place < newest)
        places = jnp.stack([jnp.where(sampled, place, count), jnp.where(number >= 0, newest, count)])
        return put(self, places, Kept(number, row))

    @property
    def filled(self) -> list[int]:
        """The rows that hold something: the sample from old to new, then the newest."""
        numbers = np.asarray(self.numbers)
        newest = len(numbers) - 1
        return [int(row) for row in (*np.argsort(numbers[:newest]), newest) if numbers[row] != EMPTY]

    def row(self, row: int) -> Any:
        """Return one row."""
        return jax.tree.map(lambda column: column[row], self.rows)


def repeated(row: Any, count: int) -> Any:
    """Return `count` copies of a row, along a new first axis."""
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), row)


def put(rows: Any, places: Int[Array, " places"], new: Any) -> Any:
    """Write one row to all places, or a row to each. Places past the end are dropped."""
    return jax.tree.map(lambda column, leaf: column.at[places].set(leaf, mode="drop"), rows, new)
