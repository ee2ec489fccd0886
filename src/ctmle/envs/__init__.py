"""What is controlled: systems that evolve as stochastic differential equations."""

from ctmle.envs.acrobot import Acrobot
from ctmle.envs.base import Env, Exact, NoisyEnv, NoisySensor, Sensor, Spec, make, sde_step, spread
from ctmle.envs.cartpole import CartPole, CartPolePilco, CartPoleSwingUp
from ctmle.envs.check import check_env
from ctmle.envs.linear_quadratic import LinearQuadratic
from ctmle.envs.observation import Observation
from ctmle.envs.pendulum import Pendulum

__all__ = [
    "Acrobot",
    "CartPole",
    "CartPolePilco",
    "CartPoleSwingUp",
    "Env",
    "Exact",
    "LinearQuadratic",
    "NoisyEnv",
    "NoisySensor",
    "Observation",
    "Pendulum",
    "Sensor",
    "Spec",
    "check_env",
    "make",
    "sde_step",
    "spread",
]
