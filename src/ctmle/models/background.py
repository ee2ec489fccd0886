"""A wide density that explains the few looks that no model explains."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ctmle.data.batches import Transitions
from ctmle.data.dataset import Dataset
from ctmle.envs.base import Spec
from ctmle.models.networks import SHORTEST_GAP, root_mean_square

EARLIEST = 0.01
"""Smallest phase: before it, the background weighs next to nothing."""


class Background(eqx.Module):
    """The log-density of each look without any model: a normal around the look before, as wide as the data moves.

    `phase` grows from 0 to 1 over a fit. A share eps of the background weighs eps^(1 / phase), so that at first every
    look has a gradient, however far off the belief is.
    """

    log_prob: Float[Array, "*batch"]
    phase: Float[Array, ""]

    def log_weight(self, share: float) -> Float[Array, ""]:
        return np.log(share) / jnp.maximum(self.phase, EARLIEST)


def background(spec: Spec, spread: Float[Array, " observed"], batch: Transitions, phase: Array) -> Background:
    """Return the background of a batch; what the data moves in a second is `spread`. Missing cells count as nothing."""
    moved = spec.observation.residual(batch.y_next, batch.y)
    scale = spread * jnp.sqrt(jnp.maximum(batch.gap, SHORTEST_GAP))[..., None]
    each = -0.5 * (moved / scale) ** 2 - jnp.log(scale) - 0.5 * np.log(2 * np.pi)
    return Background(jnp.sum(jnp.where(jnp.isnan(moved), 0.0, each), axis=-1), phase)


def spread_of(spec: Spec, data: Dataset) -> Float[Array, " observed"]:
    """Return the root mean square of what the data moves from look to look, per square root of a second."""
    gaps = jnp.maximum(jnp.diff(data.times), SHORTEST_GAP)[:, None]
    moved = spec.observation.residual(data.states[1:], data.states[:-1]) / jnp.sqrt(gaps)
    return root_mean_square(moved, jnp.where(data.follows[:, None], gaps, 0.0))
