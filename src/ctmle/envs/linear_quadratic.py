"""A linear system with a quadratic reward: small, and its optimum is known in closed form."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from ctmle.envs.base import Control, NoisyEnv, Scalar, State
from ctmle.settings import Finite, NonNegative, Positive


class LinearQuadratic(NoisyEnv):
    """dx = (a x + u) dt + sigma * unit dW,  b = 1 - x^2 - c u^2,  started at x = 1.

    Over a long horizon the best policy is u = -k x with k = a + sqrt(a^2 + 1/c).
    """

    tuned = {"": {"warm_up": 1.0}}  # noqa: RUF012

    state_names: tuple[str, ...] = eqx.field(static=True, default=("x",))
    angles: tuple[int, ...] = eqx.field(static=True, default=())
    sigma: NonNegative = eqx.field(static=True, default=1.0)
    horizon: Positive = eqx.field(static=True, default=4.0)
    a: Finite = eqx.field(static=True, default=0.0)
    """Rate at which the state grows by itself."""
    control_cost: Positive = eqx.field(static=True, default=0.1)
    """[c] Price of the squared control."""
    control_low: tuple[float, ...] = eqx.field(static=True, default=(-4.0,))
    control_high: tuple[float, ...] = eqx.field(static=True, default=(4.0,))

    @property
    def best_gain(self) -> float:
        """k of the stationary optimum u = -k x, from the scalar Riccati equation."""
        return self.a + (self.a**2 + 1.0 / self.control_cost) ** 0.5

    def drift(self, x: State, u: Control) -> State:
        return self.a * x + u

    def reward(self, x: State, u: Control) -> Scalar:
        """1 - x^2 - c u^2, whose optimum is known."""
        return 1.0 - x[0] ** 2 - self.control_cost * u[0] ** 2

    def reset(self, key: PRNGKeyArray) -> State:
        return jnp.ones((1,))
