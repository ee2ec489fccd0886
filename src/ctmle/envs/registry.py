"""Environments by name, with their settings."""

from inspect import signature
from typing import Any

from ctmle.envs.base import Env
from ctmle.registry import ENVIRONMENTS, no_such


def make(name: str, **settings: Any) -> Env:
    """Make the environment of that name. Raises ValueError, with a near match, for an unknown name or setting."""
    kind = ENVIRONMENTS.load(name)
    known = list(signature(kind).parameters)
    for setting in settings:
        if setting not in known:
            raise ValueError(no_such(f"setting of '{name}'", setting, known))
    return kind(**settings)
