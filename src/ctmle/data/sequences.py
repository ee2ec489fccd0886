"""Short stretches of consecutive looks, to predict several steps ahead on."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ctmle.data.dataset import Dataset


class Sequences(eqx.Module):
    """A batch of stretches, each from one trajectory (and so under one policy)."""

    t: Float[Array, "groups looks"]
    y: Float[Array, "groups looks observed"]
    u: Float[Array, "groups looks control"]
    u_slope: Float[Array, "groups looks control"]
    """Of the control over time: from the look before to the look after, also where those are outside the stretch."""
    real: Bool[Array, "groups looks"]
    """Looks past the end of a shorter trajectory are none: they repeat its last."""
    policies: Any


def sample_sequences(data: Dataset, key: PRNGKeyArray, *, count: int, length: int) -> Sequences:
    """`count` stretches of `length` consecutive looks, grid looks and random ones alike."""
    row_key, start_key = jax.random.split(key)
    rows = jax.random.randint(row_key, (count,), 0, data.count)
    last = data.lengths[rows] - 1
    starts = jax.random.randint(start_key, (count,), 0, jnp.maximum(last + 1 - length, 0) + 1)
    places = starts[:, None] + jnp.arange(length)
    looks = jnp.minimum(places, last[:, None])
    row, before, after = rows[:, None], jnp.maximum(looks - 1, 0), jnp.minimum(looks + 1, last[:, None])
    lasting = data.times[row, after] - data.times[row, before]
    rise = data.controls[row, after] - data.controls[row, before]
    return Sequences(
        t=data.times[row, looks],
        y=data.states[row, looks],
        u=data.controls[row, looks],
        u_slope=rise / jnp.maximum(lasting, 1e-6)[..., None],
        real=places <= last[:, None],
        policies=jax.tree.map(lambda leaf: leaf[rows] if eqx.is_array(leaf) else leaf, data.policies),
    )
