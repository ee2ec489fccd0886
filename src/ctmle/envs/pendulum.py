"""Pendulum swing-up: theta = 0 is upright, one torque at the pivot."""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from ctmle.envs.base import Control, Env, Scalar, State, check_noise_and_horizon, constant_diffusion


class Pendulum(Env):
    """Gymnasium's Pendulum-v1 (g = 10, m = l = 1) as an SDE:  w' = 15 sin(theta) + 3 u,  abs(u) <= 2."""

    state_names: tuple[str, ...] = eqx.field(static=True, default=("theta", "w"))
    angles: tuple[int, ...] = eqx.field(static=True, default=(0,))
    sigma: float = eqx.field(static=True, default=2.0)
    unit: float = eqx.field(static=True, default=0.1)
    horizon: float = eqx.field(static=True, default=10.0)
    start: Literal["hanging", "uniform"] = eqx.field(static=True, default="hanging")
    control_low: tuple[float, ...] = eqx.field(static=True, default=(-2.0,))
    control_high: tuple[float, ...] = eqx.field(static=True, default=(2.0,))

    def __check_init__(self) -> None:
        check_noise_and_horizon(self.sigma, self.unit, self.horizon)
        if self.start not in ("hanging", "uniform"):
            raise ValueError(f"start must be 'hanging' or 'uniform', not {self.start!r}")

    def drift(self, x: State, u: Control) -> State:
        theta, w = x
        return jnp.stack([w, 15.0 * jnp.sin(theta) + 3.0 * u[0]])

    def diffusion(self, x: State, u: Control) -> State:
        return constant_diffusion(self.sigma, self.unit, x)

    def reward(self, x: State, u: Control) -> Scalar:
        theta, w = x
        distance = (1.0 - jnp.cos(theta)) ** 2 + jnp.sin(theta) ** 2
        return jnp.exp(-distance - 0.01 * w**2) - 0.01 * u[0] ** 2

    def reset(self, key: PRNGKeyArray) -> State:
        if self.start == "hanging":
            return jnp.asarray([jnp.pi, 0.0])
        bound = jnp.asarray([jnp.pi, 3.0])
        return jax.random.uniform(key, (2,), minval=-bound, maxval=bound)
