"""What is controlled: systems that evolve as stochastic differential equations."""

from ctmle.envs.acrobot import Acrobot
from ctmle.envs.base import Env, Spec
from ctmle.envs.cartpole import CartPole, CartPoleSwingUp
from ctmle.envs.check import check_env
from ctmle.envs.linear_quadratic import LinearQuadratic
from ctmle.envs.observation import Observation
from ctmle.envs.pendulum import Pendulum
from ctmle.envs.registry import make
from ctmle.envs.sde import sde_step
from ctmle.envs.sensors import Exact, Sensor

__all__ = [
    "Acrobot",
    "CartPole",
    "CartPoleSwingUp",
    "Env",
    "Exact",
    "LinearQuadratic",
    "Observation",
    "Pendulum",
    "Sensor",
    "Spec",
    "check_env",
    "make",
    "sde_step",
]
