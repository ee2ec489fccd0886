"""Batches to learn from: pairs of looks, and stretches of consecutive looks."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ctmle.data.dataset import Dataset
from ctmle.data.drive import Drives


class Transitions(eqx.Module):
    """A batch of pairs of looks, grouped by the trajectory (and so the drive) that they come from."""

    t: Float[Array, "groups samples"]
    y: Float[Array, "groups samples observed"]
    u: Float[Array, "groups samples control"]
    gap: Float[Array, "groups samples"]
    y_next: Float[Array, "groups samples observed"]
    u_next: Float[Array, "groups samples control"]
    drives: Drives

    @property
    def count(self) -> int:
        return self.gap.shape[0] * self.gap.shape[1]

    def held(self, t: Array, y: Float[Array, "groups points observed"]) -> Float[Array, "groups points control"]:
        """Return the control at the start of each sample's gap, at any points of its gap."""
        return jnp.repeat(self.u, y.shape[-2] // self.u.shape[-2], axis=-2)


def sample_transitions(
    data: Dataset, key: PRNGKeyArray, *, subsequences: int, length: int, chained: bool
) -> Transitions:
    """Draw B_dyn subsequences of H_dyn consecutive gaps (step 1 of "Implementation Details").

    With random looks each gap gives two pairs: grid look to grid look and grid look to random look (the paper's two
    likelihoods), or, `chained`, grid look to random look to grid look. A trajectory with fewer gaps than a subsequence
    gives those that it has, some of them several times.
    """
    row_key, start_key = jax.random.split(key)
    stride = 2 if data.random else 1
    rows = jax.random.randint(row_key, (subsequences,), 0, data.count)
    gaps = (data.lengths[rows] - 1) // stride
    starts = jax.random.randint(start_key, (subsequences,), 0, jnp.maximum(gaps - length, 0) + 1)
    grid = data.first[rows][:, None] + stride * ((starts[:, None] + jnp.arange(length)) % gaps[:, None])
    if not data.random:
        before, after = grid, grid + 1
    elif chained:
        before = jnp.concatenate([grid, grid + 1], axis=1)
        after = before + 1
    else:
        before = jnp.concatenate([grid, grid], axis=1)
        after = jnp.concatenate([grid + 2, grid + 1], axis=1)
    t, t_next = data.times[before], data.times[after]
    return Transitions(
        t=t,
        y=data.states[before],
        u=data.controls[before],
        gap=t_next - t,
        y_next=data.states[after],
        u_next=data.controls[after],
        drives=data.drives.of(rows).over(t, t_next),
    )


class Sequences(eqx.Module):
    """A batch of stretches of consecutive looks, each from one trajectory (and so under one drive)."""

    t: Float[Array, "groups looks"]
    y: Float[Array, "groups looks observed"]
    u: Float[Array, "groups looks control"]
    u_slope: Float[Array, "groups looks control"]
    """Slope of the control over time, from the look before to the look after, even if those are not in the stretch."""
    real: Bool[Array, "groups looks"]
    """False past the end of a shorter trajectory, where its last look is repeated."""
    drives: Drives


def sample_sequences(data: Dataset, key: PRNGKeyArray, *, count: int, length: int) -> Sequences:
    """Draw `count` stretches of `length` consecutive looks, grid looks and random ones alike."""
    row_key, start_key = jax.random.split(key)
    rows = jax.random.randint(row_key, (count,), 0, data.count)
    first, last = data.first[rows][:, None], data.lengths[rows] - 1
    starts = jax.random.randint(start_key, (count,), 0, jnp.maximum(last + 1 - length, 0) + 1)
    places = starts[:, None] + jnp.arange(length)
    looks = jnp.minimum(places, last[:, None])
    before, after = first + jnp.maximum(looks - 1, 0), first + jnp.minimum(looks + 1, last[:, None])
    lasting = data.times[after] - data.times[before]
    rise = data.controls[after] - data.controls[before]
    return Sequences(
        t=data.times[first + looks],
        y=data.states[first + looks],
        u=data.controls[first + looks],
        u_slope=rise / jnp.maximum(lasting, 1e-6)[..., None],
        real=places <= last[:, None],
        drives=data.drives.of(rows),
    )
