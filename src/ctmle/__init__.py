"""ctmle: continuous-time reinforcement learning from looks that cost something.

    from ctmle import agents, envs, schedules, simulate

Everything is loaded on first use, so that `import ctmle` and the command line's help are quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctmle import agents, data, envs, lab, models, planning, plants, schedules, theory, training
    from ctmle.lab.evaluate import evaluate
    from ctmle.lab.train import load, train
    from ctmle.plants import simulate

__version__ = "0.1.0"

_FOLDERS = ("agents", "data", "envs", "lab", "models", "planning", "plants", "schedules", "theory", "training")
_NAMES = {
    "evaluate": "ctmle.lab.evaluate",
    "load": "ctmle.lab.train",
    "simulate": "ctmle.plants",
    "train": "ctmle.lab.train",
}

__all__ = [
    "agents",
    "data",
    "envs",
    "evaluate",
    "lab",
    "load",
    "models",
    "planning",
    "plants",
    "schedules",
    "simulate",
    "theory",
    "train",
    "training",
]


def __getattr__(name: str) -> Any:
    if name in _FOLDERS:
        return import_module(f"ctmle.{name}")
    if name in _NAMES:
        return getattr(import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'ctmle' has no attribute '{name}'")
