"""How a command is typed."""

import shlex
from collections.abc import Collection
from dataclasses import MISSING, fields
from typing import Any

from ctmle.checks import option
from ctmle.config import COMMANDS


def spelled(command: Any, leave_out: Collection[str] = ()) -> str:
    """What to type for the same: what has no default by its place, and of the rest what is not as usual."""
    words = ["ctmle", next(name for name, kind in COMMANDS.items() if kind is type(command))]
    ordered = sorted(fields(command), key=lambda field: field.default is not MISSING)
    for field in ordered:
        value = getattr(command, field.name)
        if field.default is MISSING:
            words.append(str(value))
        elif value != field.default and field.name not in leave_out:
            words.append(option(field.name))
            words += [] if value is True else map(str, value) if isinstance(value, tuple) else [str(value)]
    return shlex.join(words)
