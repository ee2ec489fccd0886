"""How parameters go down a gradient during a phase of updates."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from ctmle.dynamics.loop import Turn


class Descent(eqx.Module):
    """Adam on clipped gradients, with a rate that may decay over the updates of a phase."""

    updates: int = eqx.field(static=True)
    rate: float = eqx.field(static=True)
    final_rate: float = eqx.field(static=True, default=1.0)
    """At the end of a phase, as a share of the rate at its start."""
    clip: float = eqx.field(static=True, default=30.0)
    weight_decay: float = eqx.field(static=True, default=0.0)

    @property
    def optimiser(self) -> optax.GradientTransformation:
        """Of clipped gradients, with a rate of 1."""
        return optax.adamw(1.0, weight_decay=self.weight_decay) if self.weight_decay else optax.adam(1.0)

    def init(self, parameters: Any) -> Any:
        """The optimiser's state."""
        return self.optimiser.init(eqx.filter(parameters, eqx.is_array))

    def __call__(
        self, parameters: Any, gradient: Any, norm: Float[Array, "*members"], state: Any, turn: Turn
    ) -> tuple[Any, Any]:
        """What to add to the parameters, whose gradient has this norm, and the optimiser's new state.

        With a norm for each ensemble member, each member's gradient is clipped by its own.
        """
        shorter = jnp.minimum(1.0, self.clip / norm)
        clipped = jax.tree.map(lambda leaf: _along_members(shorter, leaf) * leaf, gradient)
        updates, state = self.optimiser.update(clipped, state, eqx.filter(parameters, eqx.is_array))
        rate = turn.pace * self.rate * cosine_decay(turn.step / self.updates, self.final_rate)
        return jax.tree.map(lambda leaf: rate * leaf, updates), state


def _along_members(factor: Float[Array, "*members"], leaf: Array) -> Array:
    return factor.reshape(factor.shape + (1,) * (leaf.ndim - factor.ndim))


def cosine_decay(progress: Float[Array, ""], final: float) -> Float[Array, ""]:
    """From 1 to `final` as progress goes from 0 to 1: a phase starts bold and ends settled."""
    return final + (1 - final) * 0.5 * (1 + jnp.cos(jnp.pi * progress))
