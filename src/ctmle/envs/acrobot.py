"""Acrobot: two links in a chain; th1 = 0 is hanging, the goal is the tip straight up."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from ctmle.envs.base import Control, NoisyEnv, Scalar, State
from ctmle.settings import NonNegative

GRAVITY = 9.8
MASS = 1.0
LENGTH = 1.0
CENTRE = 0.5
INERTIA = 1.0


class Acrobot(NoisyEnv):
    """Gymnasium's Acrobot-v1, "book" equations (Sutton and Barto), all masses and lengths 1.

    Fully actuated as in the paper: u = (torque on joint 2, torque on joint 1), each at most 5 in size.
    `underactuated` leaves the torque on joint 2 only.
    """

    kinematics = ((0, 2), (1, 3))
    tuned = {  # noqa: RUF012
        "": {"episodes": 15},
        "ct-mle default": {"trajectory_seconds": 5.0},
        "ct-mle paper": {"start_width": 0.0},
        "enode": {"initial_trajectories": 7, "exploring_trajectories": 3, "longest_step": 0.0625},
    }

    state_names: tuple[str, ...] = eqx.field(static=True, default=("th1", "th2", "w1", "w2"))
    angles: tuple[int, ...] = eqx.field(static=True, default=(0, 1))
    underactuated: bool = eqx.field(static=True, default=False)
    """Apply torque to the second joint alone."""
    start_width: NonNegative = eqx.field(static=True, default=0.1)
    """Every coordinate starts uniformly within this distance of hanging at rest; 0: the paper's fixed start."""
    control_low: tuple[float, ...] = eqx.field(static=True, default=(-5.0, -5.0))
    control_high: tuple[float, ...] = eqx.field(static=True, default=(5.0, 5.0))

    def __init__(
        self,
        sigma: float = 2.0,
        unit: float = 0.05,
        horizon: float = 10.0,
        underactuated: bool = False,
        start_width: float = 0.1,
        correlation: float = 0.0,
        *,
        hold: float | None = None,
        sensor_noise: float = 0.0,
    ) -> None:
        self.hold, self.sensor_noise = hold, sensor_noise
        self.sigma, self.unit, self.horizon, self.correlation = sigma, unit, horizon, correlation
        self.underactuated, self.start_width = underactuated, start_width
        if underactuated:
            self.control_low, self.control_high = (-5.0,), (5.0,)

    def drift(self, x: State, u: Control) -> State:
        th1, th2, w1, w2 = x
        torque2 = u[0]
        torque1 = jnp.zeros_like(torque2) if self.underactuated else u[1]
        coupling = MASS * LENGTH * CENTRE
        d1 = MASS * CENTRE**2 + MASS * (LENGTH**2 + CENTRE**2 + 2 * LENGTH * CENTRE * jnp.cos(th2)) + 2 * INERTIA
        d2 = MASS * (CENTRE**2 + LENGTH * CENTRE * jnp.cos(th2)) + INERTIA
        phi2 = MASS * CENTRE * GRAVITY * jnp.cos(th1 + th2 - jnp.pi / 2)
        phi1 = (
            -coupling * w2**2 * jnp.sin(th2)
            - 2 * coupling * w2 * w1 * jnp.sin(th2)
            + (MASS * CENTRE + MASS * LENGTH) * GRAVITY * jnp.cos(th1 - jnp.pi / 2)
            + phi2
        )
        # The joint-1 equation d1 w1' + d2 w2' + phi1 = torque1, solved with the book's joint-2 equation.
        load1 = phi1 - torque1
        net2 = torque2 + d2 / d1 * load1 - coupling * w1**2 * jnp.sin(th2) - phi2
        acceleration2 = net2 / (MASS * CENTRE**2 + INERTIA - d2**2 / d1)
        acceleration1 = -(d2 * acceleration2 + load1) / d1
        return jnp.stack([w1, w2, acceleration1, acceleration2])

    def reward(self, x: State, u: Control) -> Scalar:
        """Tip straight up: exp(-distance^2 - 0.01 (w1^2+w2^2)) - 1e-4 u'u, at most 1."""
        th1, th2, w1, w2 = x
        across = LENGTH * jnp.sin(th1) + LENGTH * jnp.sin(th1 + th2)
        up = -LENGTH * jnp.cos(th1) - LENGTH * jnp.cos(th1 + th2)
        distance = across**2 + (up - 2 * LENGTH) ** 2
        return jnp.exp(-distance - 0.01 * (w1**2 + w2**2)) - 1e-4 * jnp.sum(u**2)

    def reset(self, key: PRNGKeyArray) -> State:
        return jax.random.uniform(key, (4,), minval=-self.start_width, maxval=self.start_width)
