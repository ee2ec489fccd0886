"""Pendulum swing-up: theta = 0 is upright, one torque at the pivot."""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from ctmle.envs.base import Control, NoisyEnv, Scalar, State


class Pendulum(NoisyEnv):
    """Gymnasium's Pendulum-v1 (g = 10, m = l = 1) as an SDE:  w' = 15 sin(theta) + 3 u,  abs(u) <= 2."""

    kinematics = ((0, 1),)
    tuned = {"ct-mle default": {"first_seconds": 1.5, "trajectory_seconds": 1.0, "growth": 1.5, "episodes": 13}}  # noqa: RUF012

    state_names: tuple[str, ...] = eqx.field(static=True, default=("theta", "w"))
    angles: tuple[int, ...] = eqx.field(static=True, default=(0,))
    start: Literal["hanging", "uniform"] = eqx.field(static=True, default="hanging")
    """Start of episodes: hanging at rest, or at a random angle and velocity."""
    control_low: tuple[float, ...] = eqx.field(static=True, default=(-2.0,))
    control_high: tuple[float, ...] = eqx.field(static=True, default=(2.0,))

    def drift(self, x: State, u: Control) -> State:
        theta, w = x
        return jnp.stack([w, 15.0 * jnp.sin(theta) + 3.0 * u[0]])

    def reward(self, x: State, u: Control) -> Scalar:
        """Upright and still: exp(-((1-cos)^2 + sin^2) - 0.01 w^2) - 0.01 u^2, at most 1."""
        theta, w = x
        distance = (1.0 - jnp.cos(theta)) ** 2 + jnp.sin(theta) ** 2
        return jnp.exp(-distance - 0.01 * w**2) - 0.01 * u[0] ** 2

    def reset(self, key: PRNGKeyArray) -> State:
        if self.start == "hanging":
            return jnp.asarray([jnp.pi, 0.0])
        bound = jnp.asarray([jnp.pi, 3.0])
        return jax.random.uniform(key, (2,), minval=-bound, maxval=bound)
