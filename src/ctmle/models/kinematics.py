"""Coordinates whose derivative is another coordinate: nothing of their drift has to be learned."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ctmle.envs.base import Spec
from ctmle.models.model import Observed


class Kinematics(eqx.Module):
    """Pairs (i, j) of observed coordinates with dy_i = y_j dt + noise."""

    size: int = eqx.field(static=True)
    pairs: tuple[tuple[int, int], ...] = eqx.field(static=True, default=())

    @classmethod
    def of(cls, spec: Spec, use: bool = True) -> "Kinematics":
        """Return what a spec declares. In the coordinates (cos, sin, velocity) that is nothing."""
        known = use and spec.observation.kind == "angles"
        return cls(spec.observation.size, spec.kinematics if known else ())

    @property
    def learned(self) -> tuple[int, ...]:
        """Coordinates whose drift is learned."""
        known = {position for position, _ in self.pairs}
        return tuple(i for i in range(self.size) if i not in known)

    def completed(self, y: Observed, learned: Float[Array, "*batch learned"]) -> Observed:
        """Return the whole drift from that of the learned coordinates."""
        if not self.pairs:
            return learned
        velocity, place = dict(self.pairs), {i: k for k, i in enumerate(self.learned)}
        columns = [y[..., velocity[i]] if i in velocity else learned[..., place[i]] for i in range(self.size)]
        return jnp.stack(columns, axis=-1)
