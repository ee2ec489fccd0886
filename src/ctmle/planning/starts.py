"""Where imagined trajectories start: states that were seen, the reset distribution, and a box around the data."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ctmle.data.dataset import Dataset
from ctmle.envs.base import Spec
from ctmle.envs.observation import wrap_angle


class Starts(eqx.Module):
    """A mixture of starts. Without data (the oracle's case) the box is `low` to `high` and stands in for it."""

    spec: Spec
    states: Float[Array, "rows looks observed"]
    lengths: Int[Array, " rows"]
    count: Int[Array, ""]
    low: Float[Array, " state"]
    high: Float[Array, " state"]
    reset_share: float = eqx.field(static=True)
    box_share: float = eqx.field(static=True)

    @staticmethod
    def from_data(spec: Spec, data: Dataset, *, reset_share: float, box_share: float) -> "Starts":
        """The box spans what was seen, coordinate by coordinate (angles on their circle)."""
        low, high = _box(spec, data)
        return Starts(spec, data.states, data.lengths, data.count, low, high, reset_share, box_share)

    def sample(self, key: PRNGKeyArray, members: int, particles: int) -> Float[Array, "members particles observed"]:
        kind_key, row_key, look_key, reset_key, box_key = jax.random.split(key, 5)
        shape = (members, particles)
        rows = jax.random.randint(row_key, shape, 0, self.count)
        looks = jax.random.randint(look_key, shape, 0, self.lengths[rows])
        seen = self.states[rows, looks]
        reset_keys = jax.random.split(reset_key, shape)
        reset = jax.vmap(jax.vmap(self.spec.reset))(reset_keys)
        box = jax.random.uniform(box_key, (*shape, self.low.shape[0]), minval=self.low, maxval=self.high)
        kind = jax.random.uniform(kind_key, (*shape, 1))
        start = jnp.where(kind < self.reset_share + self.box_share, self.spec.observation.encode(box), seen)
        return jnp.where(kind < self.reset_share, reset, start)


@eqx.filter_jit
def _box(spec: Spec, data: Dataset) -> tuple[Float[Array, " state"], Float[Array, " state"]]:
    x = spec.observation.decode(data.states)
    is_angle = jnp.asarray([i in spec.observation.angles for i in range(x.shape[-1])])
    x = jnp.where(is_angle, wrap_angle(x), x)
    real = data.real[..., None]
    low = jnp.min(jnp.where(real, x, jnp.inf), axis=(0, 1))
    high = jnp.max(jnp.where(real, x, -jnp.inf), axis=(0, 1))
    return low, high
