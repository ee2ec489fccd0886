"""ctmle: continuous-time reinforcement learning from looks that cost something.

    from ctmle import agents, envs, schedules, simulate

Everything is loaded on first use, so that `import ctmle` and the command line's help are quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctmle import agents, data, dynamics, envs, lab, planning, schedules, theory
    from ctmle.config import CTMLEConfig, ENODEConfig, EvaluationConfig, SacTacosConfig, TrainConfig
    from ctmle.data import simulate
    from ctmle.lab.evaluate import evaluate

__version__ = "0.1.0"

_ROOMS = ("agents", "data", "dynamics", "envs", "lab", "planning", "schedules", "theory")
_NAMES = {
    "CTMLEConfig": "ctmle.config",
    "ENODEConfig": "ctmle.config",
    "EvaluationConfig": "ctmle.config",
    "SacTacosConfig": "ctmle.config",
    "TrainConfig": "ctmle.config",
    "evaluate": "ctmle.lab.evaluate",
    "simulate": "ctmle.data",
}

__all__ = [
    "CTMLEConfig",
    "ENODEConfig",
    "EvaluationConfig",
    "SacTacosConfig",
    "TrainConfig",
    "agents",
    "data",
    "dynamics",
    "envs",
    "evaluate",
    "lab",
    "planning",
    "schedules",
    "simulate",
    "theory",
]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"ctmle.{name}")
    if name in _NAMES:
        return getattr(import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'ctmle' has no attribute '{name}'")
