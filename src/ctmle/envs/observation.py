"""How a state is seen: in physical coordinates (`angles`) or as the paper sees it (`trig`: cos, sin, velocity)."""

from typing import Literal

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

ObservationKind = Literal["angles", "trig"]


class Observation(eqx.Module):
    """Maps between a state x, its observation y and the features that networks take.

    `angles`: y = x; features replace each angle by its cosine and sine, and residuals of angles are wrapped.
    `trig`: y itself holds the cosines and sines, then the other coordinates; features are y.
    """

    state_size: int = eqx.field(static=True)
    angles: tuple[int, ...] = eqx.field(static=True)
    kind: ObservationKind = eqx.field(static=True, default="angles")

    def __check_init__(self) -> None:
        if self.kind not in ("angles", "trig"):
            raise ValueError(f"observation must be 'angles' or 'trig', not {self.kind!r}")

    @property
    def others(self) -> tuple[int, ...]:
        return tuple(i for i in range(self.state_size) if i not in self.angles)

    @property
    def feature_size(self) -> int:
        return self.state_size + len(self.angles)

    @property
    def size(self) -> int:
        return self.state_size if self.kind == "angles" else self.feature_size

    def encode(self, x: Float[Array, "*batch state"]) -> Float[Array, "*batch observed"]:
        return x if self.kind == "angles" else self._trig(x)

    def decode(self, y: Float[Array, "*batch observed"]) -> Float[Array, "*batch state"]:
        """The state behind an observation; angles come back in [-pi, pi]."""
        if self.kind == "angles":
            return y
        count = len(self.angles)
        angle = jnp.arctan2(y[..., count : 2 * count], y[..., :count])
        parts = jnp.concatenate([angle, y[..., 2 * count :]], axis=-1)
        order = (*self.angles, *self.others)
        return parts[..., tuple(order.index(i) for i in range(self.state_size))]

    def encode_widths(self, widths: Float[Array, " state"]) -> Float[Array, " observed"]:
        """Return the sizes of observed coordinates from those of the state; cosines and sines have size 1."""
        if self.kind == "angles":
            return widths
        return jnp.concatenate([jnp.ones(2 * len(self.angles)), widths[jnp.asarray(self.others, int)]])

    def features(self, y: Float[Array, "*batch observed"]) -> Float[Array, "*batch features"]:
        return self._trig(y) if self.kind == "angles" else y

    def residual(
        self, y: Float[Array, "*batch observed"], mean: Float[Array, "*batch observed"]
    ) -> Float[Array, "*batch observed"]:
        """y - mean, the short way round for angles."""
        difference = y - mean
        if self.kind == "trig" or not self.angles:
            return difference
        is_angle = jnp.asarray([i in self.angles for i in range(self.state_size)])
        return jnp.where(is_angle, wrap_angle(difference), difference)

    def _trig(self, x: Float[Array, "*batch state"]) -> Float[Array, "*batch features"]:
        angle = x[..., self.angles]
        return jnp.concatenate([jnp.cos(angle), jnp.sin(angle), x[..., self.others]], axis=-1)


def wrap_angle(angle: Array) -> Array:
    """To [-pi, pi)."""
    return (angle + jnp.pi) % (2 * jnp.pi) - jnp.pi
