"""Where imagined trajectories start."""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PRNGKeyArray

from ctmle.data.dataset import Dataset
from ctmle.envs.base import Spec
from ctmle.envs.observation import wrap_angle
from ctmle.models.model import Particles
from ctmle.models.world import Context
from ctmle.planning.rest import Box, best_rest
from ctmle.planning.rollout import Rollout
from ctmle.settings import Count, Part, Share, option

TimesAndStates = tuple[Float[Array, "members particles"], Particles]

POOL_SECONDS = 6.0
"""Mean time for which a pooled trajectory goes on before it starts anew."""


class Memory(eqx.Module):
    """What starts remember: where the last imagined trajectories ended, and the best state of rest."""

    ends: Float[Array, "particles observed"]
    rest: Float[Array, " state"]
    best_reward: Float[Array, ""]
    """The reward at rest; the largest number as long as nothing is known of it."""
    size: Float[Array, ""]
    """What counts as a large difference of rewards: that reward, or the range of those that were measured."""
    gone: Float[Array, " particles"] | None = None
    """Where episodes may end: the chance that each of the last imagined trajectories did."""

    @staticmethod
    def empty(spec: Spec, particles: int) -> "Memory":
        ends, rest = jnp.zeros((particles, spec.observation.size)), jnp.zeros(spec.observation.state_size)
        largest = jnp.asarray(jnp.finfo(jnp.float32).max)
        return Memory(ends, rest, largest, largest)

    def after(self, path: Rollout) -> "Memory":
        """Return the memory with the ends of these trajectories."""
        last = path.states[-1].reshape(-1, self.ends.shape[-1])
        gone = None if self.gone is None else self.gone.at[: len(last)].set(1.0 - path.alive[-1].reshape(-1))
        return replace(self, ends=self.ends.at[: len(last)].set(last), gone=gone)


class Starts(Part):
    """Draws the times and states at which imagined trajectories start."""

    def remembered(self, context: Context, memory: Memory, key: PRNGKeyArray) -> Memory:
        """Return the memory at the beginning of an episode, whose world is new."""
        return memory

    @abstractmethod
    def prepare(self, context: Context) -> Any:
        """Compute what all draws share, once per compiled call."""

    @abstractmethod
    def sample(
        self, prepared: Any, memory: Memory, key: PRNGKeyArray, members: int, particles: int, seconds: float
    ) -> TimesAndStates:
        """Draw starts of trajectories that last so many seconds."""


@dataclass(frozen=True)
class MixedStarts(Starts):
    """A mixture: where the last imagined trajectories ended, near the best rest, in a box around the data, at the reset
    of episodes, and at states that were seen."""

    pool_share: Share = option(0.5, "pool_starts")
    """Share of imagined trajectories that go on where the one before ended: the states that the policy reaches."""
    rest_share: Share = option(0.2, "rest_starts")
    """Share that start near the state that some control holds still with the best reward."""
    rest_width: Share = 0.05
    """Half-width of the box around that state in which they start, as a share of that of the data."""
    box_share: Share = option(0.3, "box_starts")
    """Share that start anywhere in the box spanned by the data."""
    reset_share: Share = option(0.0, "reset_starts")
    """Share that start where episodes start."""
    circles: bool = option(True, "box_circles")
    """Let angles of box starts be anywhere on their circle, even where none was seen."""
    recent: Count | None = option(None, "recent_starts")
    """Number of newest trajectories whose states are starts; none: all."""

    def check(self) -> None:
        if self.pool_share + self.rest_share + self.box_share + self.reset_share > 1 + 1e-9:
            raise ValueError(
                "pool_starts, rest_starts, box_starts and reset_starts are shares of one whole: together at most 1"
            )

    def remembered(self, context: Context, memory: Memory, key: PRNGKeyArray) -> Memory:
        reset_key, rest_key = jax.random.split(key)
        if self.pool_share:
            memory = replace(memory, ends=_resets(context.spec, jax.random.split(reset_key, len(memory.ends))))
        if self.rest_share:
            box = data_box(context.spec, context.data, circles=self.circles)
            rest, reward = best_rest(context.world, context.spec, box, rest_key)
            size = jnp.abs(reward) if context.world.unit is None else jnp.ones(())
            memory = replace(memory, rest=rest, best_reward=reward, size=size)
        return memory

    def prepare(self, context: Context) -> tuple[Context, Box]:
        return context, data_box(context.spec, context.data, circles=self.circles)

    def sample(
        self,
        prepared: tuple[Context, Box],
        memory: Memory,
        key: PRNGKeyArray,
        members: int,
        particles: int,
        seconds: float,
    ) -> TimesAndStates:
        (context, (low, high)), shape = prepared, (members, particles)
        spec, data = context.spec, context.data
        kind_key, row_key, look_key, reset_key, box_key = jax.random.split(key, 5)
        oldest = 0 if self.recent is None else jnp.maximum(0, data.count - self.recent)
        rows = jax.random.randint(row_key, shape, oldest, data.count)
        looks = jax.random.randint(look_key, shape, 0, data.lengths[rows])
        seen = context.states[data.first[rows] + looks]
        reset = jax.vmap(jax.vmap(spec.reset))(jax.random.split(reset_key, shape))
        box = jax.random.uniform(box_key, (*shape, low.shape[0]), minval=low, maxval=high)
        kind = (1.0 - self.pool_share) * jax.random.uniform(kind_key, (*shape, 1))
        start = jnp.where(kind < self.reset_share + self.box_share, spec.observation.encode(box), seen)
        start = jnp.where(kind < self.reset_share, reset, start)
        if self.rest_share:
            near = memory.rest + self.rest_width * (box - 0.5 * (low + high))
            start = jnp.where(kind > 1.0 - self.pool_share - self.rest_share, spec.observation.encode(near), start)
        if self.pool_share:
            ends = memory.ends[: members * particles].reshape(*shape, -1)
            anew = jax.random.uniform(jax.random.fold_in(kind_key, 1), (*shape, 1)) < seconds / POOL_SECONDS
            if memory.gone is not None:
                chance = memory.gone[: members * particles].reshape(*shape, 1)
                anew = anew | (jax.random.uniform(jax.random.fold_in(kind_key, 2), (*shape, 1)) < chance)
            pooled = jnp.arange(particles)[:, None] < round(self.pool_share * particles)
            start = jnp.where(pooled, jnp.where(anew, reset, ends), start)
        return jnp.zeros(shape), start


@eqx.filter_jit
def _resets(spec: Spec, keys: Key[Array, " particles"]) -> Float[Array, "particles observed"]:
    return jax.vmap(spec.reset)(keys)


@eqx.filter_jit
def data_box(spec: Spec, data: Dataset, *, circles: bool = False) -> Box:
    """Return the smallest and largest value of every coordinate that was seen, angles on their circle.

    With `circles`, angles range over the whole circle.
    """
    x = spec.observation.decode(data.states)
    is_angle = jnp.asarray([i in spec.observation.angles for i in range(x.shape[-1])])
    x = jnp.where(is_angle, wrap_angle(x), x)
    real = data.real[:, None]
    low = jnp.min(jnp.where(real, x, jnp.inf), axis=0)
    high = jnp.max(jnp.where(real, x, -jnp.inf), axis=0)
    if circles:
        low, high = jnp.where(is_angle, -jnp.pi, low), jnp.where(is_angle, jnp.pi, high)
    return low, high
