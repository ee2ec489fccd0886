"""A pole on a cart: balance it from upright, or swing it up from hanging. theta = 0 is upright."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PRNGKeyArray

from ctmle.envs.base import Control, NoisyEnv, Scalar, State
from ctmle.settings import NonNegative, Positive

GRAVITY = 9.8
CART_MASS = 1.0
POLE_MASS = 0.1


def cartpole_drift(
    x: State, force: Scalar, half_length: float, cart: float = CART_MASS, pole: float = POLE_MASS, g: float = GRAVITY
) -> State:
    """Gymnasium's CartPole-v1 equations of motion (after Florian, 2007): the pole is a uniform rod."""
    _, v, theta, w = x
    total = cart + pole
    moment = pole * half_length
    push = (force + moment * w**2 * jnp.sin(theta)) / total
    inertia = half_length * (4.0 / 3.0 - pole * jnp.cos(theta) ** 2 / total)
    angular = (g * jnp.sin(theta) - jnp.cos(theta) * push) / inertia
    linear = push - moment * angular * jnp.cos(theta) / total
    return jnp.stack([v, linear, w, angular])


def tip_offset(x: State, length: float) -> tuple[Scalar, Scalar]:
    """Return how far the tip is beside and below the upright tip at the centre."""
    return x[0] + length * jnp.sin(x[2]), length * (1.0 - jnp.cos(x[2]))


def tip_reward(x: State, u: Control, length: float) -> Scalar:
    """exp(-(tip - upright tip at the centre)^2 - 0.01 (v^2 + w^2)) - 0.01 u^2."""
    _, v, _, w = x
    across, below = tip_offset(x, length)
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


class CartPolePilco(NoisyEnv):
    """PILCO's swing-up (Deisenroth and Rasmussen, 2011): a cart and a uniform rod, 0.5 kg each, the rod of 0.5 m.

    Force u in N, abs(u) <= 10, held for 0.05 s; friction of the cart; noisy measurements; no process noise.
    """

    kinematics = ((0, 1), (2, 3))
    tuned = {  # noqa: RUF012
        "": {"gap": 0.05, "random_looks": False, "warm_up": 2.0, "rule": "goal", "episodes": 10},
        # Accelerations change within a gap: the two ends of its path are too few points to integrate them. Trials are
        # short and controls strong: a policy takes more rounds to learn to be fast.
        "ct-mle default": {"bridge_segment": 0.0125, "policy_rounds": 8},
    }

    state_names: tuple[str, ...] = eqx.field(static=True, default=("x", "v", "theta", "w"))
    angles: tuple[int, ...] = eqx.field(static=True, default=(2,))
    sigma: NonNegative = eqx.field(static=True, default=0.0)
    horizon: Positive = eqx.field(static=True, default=3.0)
    hold: Positive | None = eqx.field(static=True, default=0.05)
    sensor_noise: NonNegative = eqx.field(static=True, default=0.01)
    friction: NonNegative = eqx.field(static=True, default=0.1)
    """Friction between cart and ground, in N per m/s."""
    start_noise: NonNegative = eqx.field(static=True, default=0.01)
    """Standard deviation of every coordinate at the start, around hanging at rest."""
    control_low: tuple[float, ...] = eqx.field(static=True, default=(-10.0,))
    control_high: tuple[float, ...] = eqx.field(static=True, default=(10.0,))

    def drift(self, x: State, u: Control) -> State:
        return cartpole_drift(x, u[0] - self.friction * x[1], half_length=0.25, cart=0.5, pole=0.5, g=9.81)

    def reward(self, x: State, u: Control) -> Scalar:
        """exp(-(distance of the tip from the upright tip at the centre)^2 / 0.5^2), at most 1."""
        across, below = tip_offset(x, length=0.5)
        return jnp.exp(-4.0 * (across**2 + below**2))

    def reset(self, key: PRNGKeyArray) -> State:
        return jnp.asarray([0.0, 0.0, jnp.pi, 0.0]) + self.start_noise * jax.random.normal(key, (4,))

    def goal(self, x: State) -> Bool[Array, ""]:
        """The cart is within 0.1 m of the centre, and the pole within 10 degrees of upright."""
        return (jnp.abs(x[0]) <= 0.1) & (jnp.cos(x[2]) >= math.cos(math.radians(10.0)))
