"""A pole on a cart: balance it from upright, or swing it up from hanging. theta = 0 is upright."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from ctmle.envs.base import Control, NoisyEnv, Scalar, State
from ctmle.settings import NonNegative, Positive

GRAVITY = 9.8
CART_MASS = 1.0
POLE_MASS = 0.1


def cartpole_drift(x: State, force: Scalar, half_length: float) -> State:
    """Gymnasium's CartPole-v1 equations of motion (after Florian, 2007)."""
    _, v, theta, w = x
    total = CART_MASS + POLE_MASS
    moment = POLE_MASS * half_length
    push = (force + moment * w**2 * jnp.sin(theta)) / total
    inertia = half_length * (4.0 / 3.0 - POLE_MASS * jnp.cos(theta) ** 2 / total)
    angular = (GRAVITY * jnp.sin(theta) - jnp.cos(theta) * push) / inertia
    linear = push - moment * angular * jnp.cos(theta) / total
    return jnp.stack([v, linear, w, angular])


def tip_reward(x: State, u: Control, length: float) -> Scalar:
    """exp(-(tip - upright tip at the centre)^2 - 0.01 (v^2 + w^2)) - 0.01 u^2."""
    position, v, theta, w = x
    across = position + length * jnp.sin(theta)
    below = length * (1.0 - jnp.cos(theta))
    return jnp.exp(-(across**2) - below**2 - 0.01 * (v**2 + w**2)) - 0.01 * u[0] ** 2


class CartPole(NoisyEnv):
    """Balance: Gymnasium's CartPole-v1 (half-length 0.5) with force 10 u, abs(u) <= 1.

    `bang_bang` applies the paper's fixed force: 10 in the direction of u.
    """

    kinematics = ((0, 1), (2, 3))
    tuned = {  # noqa: RUF012
        "ct-mle default": {"trajectory_seconds": 5.0, "episodes": 12},
        "ct-mle paper": {"start_width": 0.0},
        "enode": {"initial_trajectories": 5, "exploring_trajectories": 2},
    }

    state_names: tuple[str, ...] = eqx.field(static=True, default=("x", "v", "theta", "w"))
    angles: tuple[int, ...] = eqx.field(static=True, default=(2,))
    unit: Positive = eqx.field(static=True, default=0.075)
    bang_bang: bool = eqx.field(static=True, default=False)
    """Apply the paper's fixed force, in the direction of the control."""
    start_width: NonNegative = eqx.field(static=True, default=0.05)
    """Every coordinate starts uniformly within this distance of upright at rest; 0: the paper's fixed start."""
    control_low: tuple[float, ...] = eqx.field(static=True, default=(-1.0,))
    control_high: tuple[float, ...] = eqx.field(static=True, default=(1.0,))

    def drift(self, x: State, u: Control) -> State:
        push = jnp.where(u[0] >= 0, 1.0, -1.0) if self.bang_bang else u[0]
        return cartpole_drift(x, 10.0 * push, half_length=0.5)

    def reward(self, x: State, u: Control) -> Scalar:
        """Tip upright at the centre: exp(-distance^2 - 0.01 (v^2+w^2)) - 0.01 u^2, at most 1."""
        return tip_reward(x, u, length=1.0)

    def reset(self, key: PRNGKeyArray) -> State:
        return jax.random.uniform(key, (4,), minval=-self.start_width, maxval=self.start_width)


class CartPoleSwingUp(NoisyEnv):
    """Swing-up: the same equations with 1.0 in place of the half-length, force 3 u, abs(u) <= 3, from hanging."""

    kinematics = ((0, 1), (2, 3))
    tuned = {  # noqa: RUF012
        "": {"episodes": 15},
        "ct-mle default": {"trajectory_seconds": 5.0},
        "ct-mle paper": {"start_width": 0.0},
        "enode": {"initial_trajectories": 5, "exploring_trajectories": 2},
    }

    state_names: tuple[str, ...] = eqx.field(static=True, default=("x", "v", "theta", "w"))
    angles: tuple[int, ...] = eqx.field(static=True, default=(2,))
    unit: Positive = eqx.field(static=True, default=0.04)
    start_width: NonNegative = eqx.field(static=True, default=0.05)
    """Every coordinate starts uniformly within this distance of hanging at rest; 0: a fixed start."""
    control_low: tuple[float, ...] = eqx.field(static=True, default=(-3.0,))
    control_high: tuple[float, ...] = eqx.field(static=True, default=(3.0,))

    def drift(self, x: State, u: Control) -> State:
        return cartpole_drift(x, 3.0 * u[0], half_length=1.0)

    def reward(self, x: State, u: Control) -> Scalar:
        """Tip upright at the centre: exp(-distance^2 - 0.01 (v^2+w^2)) - 0.01 u^2, at most 1."""
        return tip_reward(x, u, length=1.0)

    def reset(self, key: PRNGKeyArray) -> State:
        hanging = jnp.asarray([0.0, 0.0, jnp.pi, 0.0])
        return hanging + jax.random.uniform(key, (4,), minval=-self.start_width, maxval=self.start_width)
