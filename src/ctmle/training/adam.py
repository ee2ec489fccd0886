"""Adam on clipped gradients."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

if TYPE_CHECKING:
    from ctmle.training.updates import Step


@dataclass(frozen=True)
class Adam:
    """Adam (with decoupled weight decay, if any) whose rate decays by a cosine over the updates of a stage."""

    updates: int
    rate: float
    final_rate: float = 1.0
    """Rate at the end of a stage as a share of the one at its start."""
    clip: float = 30.0
    """Largest norm of a gradient, or of each member's gradient."""
    weight_decay: float = 0.0

    @property
    def optimiser(self) -> optax.GradientTransformation:
        """The optimiser at a rate of 1."""
        return optax.adamw(1.0, weight_decay=self.weight_decay) if self.weight_decay else optax.adam(1.0)

    def init(self, parameters: Any) -> Any:
        """Return the optimiser's state for the arrays of `parameters`."""
        return self.optimiser.init(eqx.filter(parameters, eqx.is_array))

    def __call__(
        self, parameters: Any, gradient: Any, norm: Float[Array, "*members"], state: Any, step: "Step"
    ) -> tuple[Any, Any]:
        """Return what to add to the parameters, whose gradient has this norm, and the optimiser's new state.

        With one norm per ensemble member, each member's gradient is clipped by its own.
        """
        shorter = jnp.minimum(1.0, self.clip / norm)
        clipped = jax.tree.map(lambda leaf: _along_members(shorter, leaf) * leaf, gradient)
        updates, state = self.optimiser.update(clipped, state, eqx.filter(parameters, eqx.is_array))
        rate = step.pace * self.rate * cosine_decay(step.index / self.updates, self.final_rate)
        return jax.tree.map(lambda leaf: rate * leaf, updates), state


def cosine_decay(progress: Float[Array, ""], final: float) -> Float[Array, ""]:
    """Decay from 1 to `final` as progress goes from 0 to 1."""
    return final + (1 - final) * 0.5 * (1 + jnp.cos(jnp.pi * progress))


def _along_members(factor: Float[Array, "*members"], leaf: Array) -> Array:
    return factor.reshape(factor.shape + (1,) * (leaf.ndim - factor.ndim))
