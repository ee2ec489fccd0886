"""Everything seen so far, in padded arrays of fixed capacity: nothing is compiled again as data grows."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ctmle.data.drive import ClosedLoop, closed_loops
from ctmle.data.trajectory import Trajectory
from ctmle.envs.base import Spec


class Dataset(eqx.Module):
    """Trajectories with their own times and policies. Rows from `count` on, and looks past `lengths`, are padding."""

    times: Float[Array, "capacity looks"]
    states: Float[Array, "capacity looks observed"]
    controls: Float[Array, "capacity looks control"]
    lengths: Int[Array, " capacity"]
    count: Int[Array, ""]
    policies: Any
    random: bool = eqx.field(static=True)

    @staticmethod
    def empty(like: Trajectory, capacity: int) -> "Dataset":
        """Room for `capacity` trajectories that look like `like`."""

        def stack(leaf: Any) -> Any:
            return jnp.zeros((capacity, *leaf.shape), leaf.dtype) if eqx.is_array(leaf) else leaf

        return Dataset(
            times=stack(like.times),
            states=stack(like.states),
            controls=stack(like.controls),
            lengths=jnp.zeros(capacity, jnp.int32),
            count=jnp.zeros((), jnp.int32),
            policies=jax.tree.map(stack, _policy(like)),
            random=like.random,
        )

    @property
    def capacity(self) -> int:
        return self.times.shape[0]

    @property
    def real(self) -> Bool[Array, "capacity looks"]:
        """Which looks are looks, and not padding. (The length of an unused row is 0.)"""
        return jnp.arange(self.times.shape[1]) < self.lengths[:, None]

    @property
    def looks(self) -> Int[Array, ""]:
        """How many looks were spent in all."""
        return jnp.sum(self.lengths)

    def add(self, trajectory: Trajectory) -> "Dataset":
        """A dataset with one more trajectory; grows (and so compiles anew) only when its capacity is spent."""
        data = Dataset.empty(trajectory, self.capacity) if int(self.count) == 0 else self
        data._check(trajectory)
        if int(data.count) == data.capacity:
            data = data._padded(2 * data.capacity, data.times.shape[1])
        if trajectory.looks > data.times.shape[1]:
            data = data._padded(data.capacity, trajectory.looks)
        return _insert(data, data._pad_looks(trajectory), jnp.asarray(trajectory.looks, jnp.int32))

    def trajectory(self, row: int) -> Trajectory:
        """The trajectory that was added as the `row`-th, from 0."""
        found, length = _row(self, jnp.asarray(row, jnp.int32))
        columns = (found.times, found.states, found.controls)
        cut = [jax.device_put(np.asarray(column)[: int(length)]) for column in columns]
        return eqx.tree_at(lambda t: (t.times, t.states, t.controls), found, cut)

    def room(self, capacity: int, looks: int, random: bool) -> "Dataset":
        """An empty dataset for the same system with another size: the shapes of one that was saved."""

        def stack(leaf: Any) -> Any:
            return jnp.zeros((capacity, *leaf.shape[1:]), leaf.dtype) if eqx.is_array(leaf) else leaf

        return Dataset(
            times=jnp.zeros((capacity, looks), self.times.dtype),
            states=jnp.zeros((capacity, looks, self.states.shape[2]), self.states.dtype),
            controls=jnp.zeros((capacity, looks, self.controls.shape[2]), self.controls.dtype),
            lengths=stack(self.lengths),
            count=self.count,
            policies=jax.tree.map(stack, self.policies),
            random=random,
        )

    def _check(self, trajectory: Trajectory) -> None:
        if trajectory.random != self.random:
            raise ValueError("a dataset holds trajectories with random looks or without, not both")
        if trajectory.states.shape[-1] != self.states.shape[-1]:
            raise ValueError(
                f"this trajectory has {trajectory.states.shape[-1]} observed coordinates,"
                f" the dataset's have {self.states.shape[-1]}"
            )
        if jax.tree.structure(_policy(trajectory)) != jax.tree.structure(self.policies):
            raise ValueError("this trajectory was driven by another kind of policy than those in the dataset")

    def _pad_looks(self, trajectory: Trajectory) -> Trajectory:
        missing = self.times.shape[1] - trajectory.looks

        def pad(leaf: Array) -> Array:
            return jax.device_put(np.pad(np.asarray(leaf), [(0, missing)] + [(0, 0)] * (leaf.ndim - 1)))

        padded = (pad(trajectory.times), pad(trajectory.states), pad(trajectory.controls))
        return eqx.tree_at(lambda t: (t.times, t.states, t.controls), trajectory, padded)

    def _padded(self, capacity: int, looks: int) -> "Dataset":
        def rows(leaf: Array) -> Array:
            return jnp.pad(leaf, [(0, capacity - leaf.shape[0])] + [(0, 0)] * (leaf.ndim - 1))

        def rows_and_looks(leaf: Array) -> Array:
            return jnp.pad(rows(leaf), [(0, 0), (0, looks - leaf.shape[1])] + [(0, 0)] * (leaf.ndim - 2))

        arrays, static = eqx.partition(self.policies, eqx.is_array)
        return Dataset(
            times=rows_and_looks(self.times),
            states=rows_and_looks(self.states),
            controls=rows_and_looks(self.controls),
            lengths=rows(self.lengths),
            count=self.count,
            policies=eqx.combine(jax.tree.map(rows, arrays), static),
            random=self.random,
        )


def _policy(trajectory: Trajectory) -> Any:
    if not isinstance(trajectory.drive, ClosedLoop):
        raise ValueError("this trajectory does not say which policy drove it: pass the policy as its drive")
    return trajectory.drive.policy


@eqx.filter_jit
def _row(data: Dataset, row: Int[Array, ""]) -> tuple[Trajectory, Int[Array, ""]]:
    """A trajectory with its padding, and how many looks it has."""
    times, states, controls, policy, length = jax.tree.map(
        lambda leaf: leaf[row] if eqx.is_array(leaf) else leaf,
        (data.times, data.states, data.controls, data.policies, data.lengths),
    )
    return Trajectory(times, states, controls, ClosedLoop(policy), data.random), length


@eqx.filter_jit
def _insert(data: Dataset, trajectory: Trajectory, length: Int[Array, ""]) -> Dataset:
    row = data.count

    def put(column: Any, leaf: Any) -> Any:
        return column.at[row].set(leaf) if eqx.is_array(column) else column

    return Dataset(
        times=put(data.times, trajectory.times),
        states=put(data.states, trajectory.states),
        controls=put(data.controls, trajectory.controls),
        lengths=put(data.lengths, length),
        count=row + 1,
        policies=jax.tree.map(put, data.policies, _policy(trajectory)),
        random=data.random,
    )


class Transitions(eqx.Module):
    """A batch of pairs of looks, grouped by the trajectory (and so the policy) that they come from."""

    t: Float[Array, "groups samples"]
    y: Float[Array, "groups samples observed"]
    u: Float[Array, "groups samples control"]
    gap: Float[Array, "groups samples"]
    y_next: Float[Array, "groups samples observed"]
    u_next: Float[Array, "groups samples control"]
    policies: Any

    @property
    def count(self) -> int:
        return self.gap.shape[0] * self.gap.shape[1]

    def closed_loop(self, spec: Spec) -> Callable[[Array, Array], Array]:
        """Return the control law of the policies that acted, each on its own group of samples."""
        return closed_loops(spec, self.policies)

    def held(self, t: Array, y: Float[Array, "groups points observed"]) -> Float[Array, "groups points control"]:
        """Return the control at the start of each sample's gap, at any points of its gap."""
        return jnp.repeat(self.u, y.shape[-2] // self.u.shape[-2], axis=-2)


def sample_transitions(
    data: Dataset, key: PRNGKeyArray, *, subsequences: int, length: int, chained: bool
) -> Transitions:
    """B_dyn subsequences of H_dyn consecutive gaps (step 1 of "Implementation Details").

    With random looks each gap gives two pairs: grid look to grid look and grid look to random look (the paper's two
    likelihoods), or, `chained`, grid look to random look to grid look. A trajectory with fewer gaps than a subsequence
    gives those that it has, some of them several times.
    """
    row_key, start_key = jax.random.split(key)
    stride = 2 if data.random else 1
    rows = jax.random.randint(row_key, (subsequences,), 0, data.count)
    gaps = (data.lengths[rows] - 1) // stride
    starts = jax.random.randint(start_key, (subsequences,), 0, jnp.maximum(gaps - length, 0) + 1)
    grid = stride * ((starts[:, None] + jnp.arange(length)) % gaps[:, None])
    if not data.random:
        before, after = grid, grid + 1
    elif chained:
        before = jnp.concatenate([grid, grid + 1], axis=1)
        after = before + 1
    else:
        before = jnp.concatenate([grid, grid], axis=1)
        after = jnp.concatenate([grid + 2, grid + 1], axis=1)
    row = rows[:, None]
    return Transitions(
        t=data.times[row, before],
        y=data.states[row, before],
        u=data.controls[row, before],
        gap=data.times[row, after] - data.times[row, before],
        y_next=data.states[row, after],
        u_next=data.controls[row, after],
        policies=jax.tree.map(lambda leaf: leaf[rows] if eqx.is_array(leaf) else leaf, data.policies),
    )
