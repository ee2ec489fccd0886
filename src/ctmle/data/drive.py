"""The control that acted on a plant during an episode, as far as it is known afterwards."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ctmle.envs.base import Spec

ControlLaw = Callable[[Float[Array, "*batch"], Float[Array, "*batch observed"]], Float[Array, "*batch control"]]


class Drive(eqx.Module):
    """The control at any time of an episode, given the state at that time."""

    @abstractmethod
    def __call__(
        self, t: Float[Array, "*batch"], y: Float[Array, "*batch observed"]
    ) -> Float[Array, "*batch control"]: ...


class ClosedLoop(Drive):
    """A policy that saw the state at every instant, as in the paper: its control follows the unseen path."""

    policy: Any

    def __call__(self, t: Float[Array, "*batch"], y: Float[Array, "*batch observed"]) -> Float[Array, "*batch control"]:
        return self.policy(t, y)


class Recorded(Drive):
    """A control that was applied whatever the state did between looks: `values[i]` from `times[i]` on."""

    times: Float[Array, " pieces"]
    values: Float[Array, "pieces control"]

    def __call__(self, t: Float[Array, "*batch"], y: Float[Array, "*batch observed"]) -> Float[Array, "*batch control"]:
        return self.values[jnp.maximum(jnp.searchsorted(self.times, t, side="right") - 1, 0)]


class Drives(eqx.Module):
    """The drives of several episodes: a stack of policies, recorded controls of all of them end to end, or both.

    The pieces `first` to `last` of `recorded` belong to an episode (or to a part of one) that `is_recorded`.
    """

    policies: Any
    recorded: Recorded | None
    is_recorded: Bool[Array, " episodes"]
    first: Int[Array, "episodes *samples"]
    last: Int[Array, "episodes *samples"]

    @staticmethod
    def closed(policies: Any, episodes: int) -> "Drives":
        """Return the drives of episodes in closed loop, each by its own of the stacked policies."""
        none = jnp.zeros(episodes, jnp.int32)
        return Drives(policies, None, none > 0, none, none)

    def add(self, row: int, drive: ClosedLoop | Recorded, episodes: int) -> "Drives":
        """Return the drives with that of episode `row`, and room for so many episodes."""
        recorded, begin, end, policy = self.recorded, 0, 0, None
        if isinstance(drive, ClosedLoop):
            policy = drive.policy
        else:
            recorded = recorded or Recorded(drive.times[:0], drive.values[:0])
            begin = int(np.max(np.where(self.is_recorded, self.last + 1, 0)))
            end = begin + len(drive.times)
            size = room_for(end, len(recorded.times) or episodes * len(drive.times))
            new = ((recorded.times, drive.times), (recorded.values, drive.values))
            recorded = Recorded(*(with_entries(column, slice(begin, end), values, size) for column, values in new))
        return Drives(
            policies=_with_policy(self.policies, policy, row, episodes),
            recorded=recorded,
            is_recorded=with_entries(self.is_recorded, row, policy is None, episodes),
            first=with_entries(self.first, row, begin, episodes),
            last=with_entries(self.last, row, end - 1, episodes),
        )

    @property
    def flawed(self) -> bool:
        """True if pieces are said to be where the record has none, or if episodes have neither policy nor record."""
        first, last, is_recorded = (np.asarray(column) for column in (self.first, self.last, self.is_recorded))
        if self.recorded is None:
            return bool(is_recorded.any())
        outside = (first < 0) | (last < first) | (last >= len(self.recorded.times))
        return bool(np.any(outside & is_recorded) or (self.policies is None and not is_recorded.any()))

    def one(self, row: int) -> ClosedLoop | Recorded:
        """Return the drive of one episode."""
        if self.recorded is None or not bool(self.is_recorded[row]):
            return ClosedLoop(_map_arrays(lambda leaf: jax.device_put(np.asarray(leaf)[row]), self.policies))
        pieces = slice(int(self.first[row]), int(self.last[row]) + 1)
        return jax.tree.map(lambda column: jax.device_put(np.asarray(column)[pieces]), self.recorded)

    def of(self, rows: Int[Array, " groups"]) -> "Drives":
        """Return the drives of some of the episodes, which may repeat."""
        policies = _map_arrays(lambda leaf: leaf[rows], self.policies)
        return Drives(policies, self.recorded, self.is_recorded[rows], self.first[rows], self.last[rows])

    def over(self, begin: Float[Array, "episodes *samples"], end: Float[Array, "episodes *samples"]) -> "Drives":
        """Return the drives of one gap of each episode, or of several: at both ends of a gap its own control acts."""
        if self.recorded is None:
            return self
        ends = (self._acting(begin), self._acting(end, strictly=True))
        return eqx.tree_at(lambda d: (d.first, d.last), self, ends)

    def control(self, spec: Spec, closed: ControlLaw | None = None) -> ControlLaw:
        """Return the control law of samples that are grouped by episode, or by gap after `over`.

        In a closed loop that is the policy of each episode, or the law `closed` instead of it.
        """
        follow = self._follow(spec) if closed is None else closed
        if self.recorded is None:
            return follow
        values = self.recorded.values

        def control(t: Array, y: Array) -> Array:
            applied = values[self._acting(t)]
            if self.policies is None:
                return applied
            is_recorded = self.is_recorded.reshape(-1, *(1,) * (applied.ndim - 1))
            return jnp.where(is_recorded, applied, follow(t, y))

        return control

    def _follow(self, spec: Spec) -> ControlLaw:
        def control(t: Array, y: Array) -> Array:
            return spec.clip(eqx.filter_vmap(lambda policy, t, y: policy(t, y))(self.policies, t, y))

        return control

    def _acting(self, t: Float[Array, "episodes *points"], *, strictly: bool = False) -> Int[Array, "episodes *points"]:
        """Find the last piece that begins at or before each time (`strictly`: before it), by bisection."""
        assert self.recorded is not None  # callers ask only then
        times, (low, high) = self.recorded.times, (_along(bound, t) for bound in (self.first, self.last))

        def halved(_: Array, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = bounds
            middle = (low + high + 1) // 2
            begun = times[middle] < t if strictly else times[middle] <= t
            return jnp.where(begun, middle, low), jnp.where(begun, high, jnp.maximum(middle - 1, low))

        # A loop, because XLA fuses lines of gathers at a cost that grows exponentially.
        return jax.lax.fori_loop(0, times.shape[0].bit_length(), halved, (low, high))[0]


def _along(bound: Int[Array, "episodes *samples"], t: Float[Array, "episodes *points"]) -> Int[Array, "..."]:
    """Repeat a bound of each episode, or of each of its samples, for the points of `t` that belong to it."""
    return jnp.repeat(bound.reshape(len(bound), -1), t.size // bound.size, axis=1).reshape(t.shape)


def _with_policy(policies: Any, policy: Any, row: int, episodes: int) -> Any:
    """Put a policy into the stack of those that acted, which may not exist yet; without one, only make room."""
    if policy is None:
        return _map_arrays(lambda stack: with_entries(stack, slice(0), 0, episodes), policies)
    if policies is None:
        policies = _map_arrays(lambda leaf: jax.device_put(np.zeros((episodes, *leaf.shape), leaf.dtype)), policy)
    return _map_arrays(lambda stack, leaf: with_entries(stack, row, leaf, episodes), policies, policy)


def _map_arrays(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """Map the arrays of a tree; whatever else is in it stays."""
    return jax.tree.map(lambda leaf, *more: function(leaf, *more) if eqx.is_array(leaf) else leaf, tree, *others)


def room_for(entries: int, room: int) -> int:
    """Double the room until all entries fit."""
    return room if entries <= room else room_for(entries, max(1, 2 * room))


def with_entries(column: Any, where: int | slice, values: Any, size: int) -> Array:
    """Copy a column on the host, with room for `size` entries, and set some of them: nothing is compiled."""
    longer = np.zeros((size, *column.shape[1:]), column.dtype)
    longer[: len(column)] = column
    longer[where] = values
    return jax.device_put(longer)
