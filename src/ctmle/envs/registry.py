"""Environments by name."""

from difflib import get_close_matches
from inspect import signature
from typing import Any

from ctmle.envs.acrobot import Acrobot
from ctmle.envs.base import Env
from ctmle.envs.cartpole import CartPole, CartPoleSwingUp
from ctmle.envs.linear_quadratic import LinearQuadratic
from ctmle.envs.pendulum import Pendulum

ENVIRONMENTS: dict[str, type[Env]] = {
    "pendulum": Pendulum,
    "cartpole": CartPole,
    "cartpole-swingup": CartPoleSwingUp,
    "acrobot": Acrobot,
    "linear-quadratic": LinearQuadratic,
}


def make(name: str, **settings: Any) -> Env:
    """The environment of that name. Raises ValueError, with a near match, for a name or a setting that is unknown."""
    if name not in ENVIRONMENTS:
        near = get_close_matches(name, ENVIRONMENTS, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(ENVIRONMENTS)}"
        raise ValueError(f"no environment is called '{name}': {hint}")
    known = list(signature(ENVIRONMENTS[name]).parameters)
    for setting in settings:
        if setting not in known:
            near = get_close_matches(setting, known, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"it has {', '.join(known)}"
            raise ValueError(f"environment '{name}' has no setting '{setting}': {hint}")
    return ENVIRONMENTS[name](**settings)
