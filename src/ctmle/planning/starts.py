"""Where imagined trajectories start."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ctmle.data.dataset import Dataset
from ctmle.envs.base import Spec
from ctmle.envs.observation import wrap_angle
from ctmle.models.model import Particles
from ctmle.models.world import Context
from ctmle.settings import Count, Part, Share, option

TimesAndStates = tuple[Float[Array, "members particles"], Particles]


class Starts(Part):
    """Draws the times and states at which imagined trajectories start."""

    @abstractmethod
    def prepare(self, context: Context) -> Any:
        """Compute what all draws share, once per compiled call."""

    @abstractmethod
    def sample(self, prepared: Any, key: PRNGKeyArray, members: int, particles: int) -> TimesAndStates: ...


Box = tuple[Float[Array, " state"], Float[Array, " state"]]


@dataclass(frozen=True)
class MixedStarts(Starts):
    """A mixture of states that were seen, the reset distribution, and a box around the data."""

    reset_share: Share = option(0.2, "reset_starts")
    """Share of imagined trajectories that start where episodes start."""
    box_share: Share = option(0.5, "box_starts")
    """Share that start anywhere in the box spanned by the data."""
    recent: Count | None = option(None, "recent_starts")
    """Number of newest trajectories whose states are starts; none: all."""

    def check(self) -> None:
        if self.reset_share + self.box_share > 1:
            raise ValueError("reset_starts and box_starts are shares of one whole: together at most 1")

    def prepare(self, context: Context) -> tuple[Context, Box]:
        return context, data_box(context.spec, context.data)

    def sample(self, prepared: tuple[Context, Box], key: PRNGKeyArray, members: int, particles: int) -> TimesAndStates:
        (context, (low, high)), shape = prepared, (members, particles)
        spec, data = context.spec, context.data
        kind_key, row_key, look_key, reset_key, box_key = jax.random.split(key, 5)
        oldest = 0 if self.recent is None else jnp.maximum(0, data.count - self.recent)
        rows = jax.random.randint(row_key, shape, oldest, data.count)
        looks = jax.random.randint(look_key, shape, 0, data.lengths[rows])
        seen = context.states[data.first[rows] + looks]
        reset = jax.vmap(jax.vmap(spec.reset))(jax.random.split(reset_key, shape))
        box = jax.random.uniform(box_key, (*shape, low.shape[0]), minval=low, maxval=high)
        kind = jax.random.uniform(kind_key, (*shape, 1))
        start = jnp.where(kind < self.reset_share + self.box_share, spec.observation.encode(box), seen)
        return jnp.zeros(shape), jnp.where(kind < self.reset_share, reset, start)


def data_box(spec: Spec, data: Dataset) -> Box:
    """Return the smallest and largest value of every coordinate that was seen, angles on their circle."""
    x = spec.observation.decode(data.states)
    is_angle = jnp.asarray([i in spec.observation.angles for i in range(x.shape[-1])])
    x = jnp.where(is_angle, wrap_angle(x), x)
    real = data.real[:, None]
    low = jnp.min(jnp.where(real, x, jnp.inf), axis=0)
    high = jnp.max(jnp.where(real, x, -jnp.inf), axis=0)
    return low, high
