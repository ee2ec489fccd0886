"""A linear system with a quadratic reward: small, and its optimum is known in closed form."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from ctmle.envs.base import Control, Env, Scalar, State, check_noise_and_horizon, constant_diffusion


class LinearQuadratic(Env):
    """dx = (a x + u) dt + sigma * unit dW,  b = 1 - x^2 - c u^2,  started at x = 1.

    Over a long horizon the best policy is u = -k x with k = a + sqrt(a^2 + 1/c).
    """

    state_names: tuple[str, ...] = eqx.field(static=True, default=("x",))
    angles: tuple[int, ...] = eqx.field(static=True, default=())

    sigma: float = eqx.field(static=True, default=1.0)
    unit: float = eqx.field(static=True, default=0.1)
    horizon: float = eqx.field(static=True, default=4.0)
    a: float = eqx.field(static=True, default=0.0)
    control_cost: float = eqx.field(static=True, default=0.1)
    control_low: tuple[float, ...] = eqx.field(static=True, default=(-4.0,))
    control_high: tuple[float, ...] = eqx.field(static=True, default=(4.0,))

    def __check_init__(self) -> None:
        check_noise_and_horizon(self.sigma, self.unit, self.horizon)
        if self.control_cost <= 0:
            raise ValueError(f"control_cost must be positive, not {self.control_cost}")

    @property
    def best_gain(self) -> float:
        """k of the stationary optimum u = -k x, from the scalar Riccati equation."""
        return self.a + (self.a**2 + 1.0 / self.control_cost) ** 0.5

    def drift(self, x: State, u: Control) -> State:
        return self.a * x + u

    def diffusion(self, x: State, u: Control) -> State:
        return constant_diffusion(self.sigma, self.unit, x)

    def reward(self, x: State, u: Control) -> Scalar:
        return 1.0 - x[0] ** 2 - self.control_cost * u[0] ** 2

    def reset(self, key: PRNGKeyArray) -> State:
        return jnp.ones((1,))
