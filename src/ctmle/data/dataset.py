"""Everything seen so far: all episodes end to end, in arrays with room to spare."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ctmle.data.drive import ClosedLoop, Drives, Recorded, room_for, with_entries
from ctmle.data.trajectory import Trajectory


class Dataset(eqx.Module):
    """Trajectories with their own times and drives, the looks of each after those of the one before.

    A full array doubles in size, so programs compile anew log2(looks) times in a lifetime, not for longer episodes.
    """

    times: Float[Array, " looks"]
    states: Float[Array, "looks observed"]
    controls: Float[Array, "looks control"]
    rewards: Float[Array, " looks"]
    """The integral of the reward from each look to the next, in episodes that were `paid`."""
    lengths: Int[Array, " episodes"]
    ended: Bool[Array, " episodes"]
    """True for episodes that the plant ended by itself, at their last look."""
    paid: Bool[Array, " episodes"]
    """True for episodes whose rewards were measured."""
    count: Int[Array, ""]
    drives: Drives
    random: bool = eqx.field(static=True)

    @staticmethod
    def empty(like: Trajectory, episodes: int) -> "Dataset":
        """Make room for this many trajectories that look like `like`."""
        _drive(like)
        looks = episodes * like.looks

        def zeros(leaf: Any, rows: int) -> Any:
            return jnp.zeros((rows, *leaf.shape), leaf.dtype) if eqx.is_array(leaf) else leaf

        drives = Drives.closed(jax.tree.map(lambda leaf: zeros(leaf, episodes), like.policy), episodes)
        times, states, controls = (zeros(column[0], looks) for column in (like.times, like.states, like.controls))
        lengths, count = jnp.zeros(episodes, jnp.int32), jnp.zeros((), jnp.int32)
        rewards, never = zeros(times[0], looks), lengths > 0
        return Dataset(times, states, controls, rewards, lengths, never, never, count, drives, like.random)

    @property
    def capacity(self) -> int:
        """Episodes that there is room for."""
        return self.lengths.shape[0]

    @property
    def looks(self) -> Int[Array, ""]:
        """Looks spent in all."""
        return jnp.sum(self.lengths)

    @property
    def first(self) -> Int[Array, " episodes"]:
        """The place of each episode's first look."""
        return jnp.cumsum(self.lengths) - self.lengths

    @property
    def real(self) -> Bool[Array, " looks"]:
        """True where there is a look, and not room for one."""
        return jnp.arange(self.times.shape[0]) < self.looks

    @property
    def follows(self) -> Bool[Array, " gaps"]:
        """True where a look and the one after it belong to the same episode."""
        episode = self.episodes_of(jnp.arange(self.times.shape[0]))
        return self.real[1:] & (episode[1:] == episode[:-1])

    def episodes_of(self, looks: Int[Array, "*batch"]) -> Int[Array, "*batch"]:
        """Return the episodes of looks at these places, from 0; past the last look, a number that no episode has."""
        return jnp.searchsorted(jnp.cumsum(self.lengths), looks, side="right")

    def add(self, trajectory: Trajectory) -> "Dataset":
        """Return the dataset with one more trajectory. Raises ValueError for one of another kind."""
        data = Dataset.empty(trajectory, self.capacity) if int(self.count) == 0 else self
        data._check(trajectory)
        row, begin = int(data.count), int(data.looks)
        end = begin + trajectory.looks
        looks, episodes = room_for(end, len(data.times)), room_for(row + 1, data.capacity)
        is_paid, rewards = trajectory.rewards is not None, np.zeros(trajectory.looks)
        if trajectory.rewards is not None:
            rewards[:-1] = trajectory.rewards
        seen = (trajectory.times, trajectory.states, trajectory.controls, rewards)
        columns = zip((data.times, data.states, data.controls, data.rewards), seen, strict=True)
        by_look = [with_entries(column, slice(begin, end), values, looks) for column, values in columns]
        lengths = with_entries(data.lengths, row, trajectory.looks, episodes)
        ended = with_entries(data.ended, row, trajectory.ended, episodes)
        paid = with_entries(data.paid, row, is_paid, episodes)
        drives = data.drives.add(row, _drive(trajectory), episodes)
        times, states, controls, rewards = by_look
        count = jax.device_put(np.int32(row + 1))
        return Dataset(times, states, controls, rewards, lengths, ended, paid, count, drives, data.random)

    def trajectory(self, row: int) -> Trajectory:
        """Return the trajectory that was added as the `row`-th, from 0."""
        begin, length = int(self.first[row]), int(self.lengths[row])
        columns = (self.times, self.states, self.controls)
        times, states, controls = (jax.device_put(np.asarray(c)[begin : begin + length]) for c in columns)
        rewards = np.asarray(self.rewards)[begin : begin + length - 1]
        rewards = jax.device_put(rewards) if bool(self.paid[row]) else None
        drive, ended = self.drives.one(row), bool(self.ended[row])
        return Trajectory(times, states, controls, drive, self.random, rewards, ended)

    def sized(self, looks: int, episodes: int, pieces: int | None, *, closed: bool, random: bool) -> "Dataset":
        """Return an empty dataset for the same system with the sizes and the kinds of drives of one that was saved."""

        def zeros(leaf: Any, rows: int) -> Any:
            return jnp.zeros((rows, *leaf.shape[1:]), leaf.dtype) if eqx.is_array(leaf) else leaf

        none = zeros(self.lengths, episodes)
        policies = jax.tree.map(lambda leaf: zeros(leaf, episodes), self.drives.policies) if closed else None
        recorded = None if pieces is None else Recorded(zeros(self.times, pieces), zeros(self.controls, pieces))
        by_look = [zeros(column, looks) for column in (self.times, self.states, self.controls, self.rewards)]
        times, states, controls, rewards = by_look
        drives = Drives(policies, recorded, none > 0, none, none)
        return Dataset(times, states, controls, rewards, none, none > 0, none > 0, self.count, drives, random)

    def _check(self, trajectory: Trajectory) -> None:
        if trajectory.random != self.random:
            raise ValueError("a dataset holds trajectories with random looks or without, not both")
        if trajectory.states.shape[-1] != self.states.shape[-1]:
            raise ValueError(
                f"this trajectory has {trajectory.states.shape[-1]} observed coordinates,"
                f" the dataset's have {self.states.shape[-1]}"
            )
        policies, own = self.drives.policies, trajectory.policy
        if policies is not None and own is not None and _layout(policies, stacked=True) != _layout(own):
            raise ValueError("this trajectory was driven by another kind of policy than those in the dataset")


def _layout(policy: Any, *, stacked: bool = False) -> tuple[Any, list[tuple[int, ...]]]:
    """Return the structure of a policy, or of a stack of them, and the shapes of one policy's arrays."""
    shapes = [leaf.shape for leaf in jax.tree.leaves(eqx.filter(policy, eqx.is_array))]
    return jax.tree.structure(policy), [shape[1:] for shape in shapes] if stacked else shapes


def _drive(trajectory: Trajectory) -> ClosedLoop | Recorded:
    """Return what drove a trajectory. Raises ValueError if it does not say."""
    if not isinstance(trajectory.drive, ClosedLoop | Recorded):
        raise ValueError(
            "this trajectory does not say what drove it: pass the policy, or Recorded(times, controls), as its drive"
        )
    return trajectory.drive
