"""What is controlled: systems that evolve as stochastic differential equations."""

from ctmle.envs.acrobot import Acrobot
from ctmle.envs.base import Env, Spec
from ctmle.envs.cartpole import CartPole, CartPoleSwingUp
from ctmle.envs.check import check_env
from ctmle.envs.linear_quadratic import LinearQuadratic
from ctmle.envs.observation import Observation
from ctmle.envs.pendulum import Pendulum
from ctmle.envs.registry import ENVIRONMENTS, make
from ctmle.envs.sde import sde_step

__all__ = [
    "ENVIRONMENTS",
    "Acrobot",
    "CartPole",
    "CartPoleSwingUp",
    "Env",
    "LinearQuadratic",
    "Observation",
    "Pendulum",
    "Spec",
    "check_env",
    "make",
    "sde_step",
]
