"""Commands as they are typed."""

import shlex
from collections.abc import Collection
from dataclasses import MISSING, fields
from typing import Any

from ctmle.settings import spelled as spelled_option


def spelled(command: Any, leave_out: Collection[str] = ()) -> str:
    """Return the command line that reproduces a command: positionals first, then options that differ from defaults.

    The class is named after the command: `SweepCommand` is `ctmle sweep`.
    """
    words = ["ctmle", type(command).__name__.removesuffix("Command").lower()]
    for field in sorted(fields(command), key=lambda field: field.default is not MISSING):
        value = getattr(command, field.name)
        if field.default is MISSING:
            words.append(str(value))
        elif value != field.default and field.name not in leave_out:
            words.append(spelled_option(field.name))
            words += [] if value is True else map(str, value) if isinstance(value, tuple) else [str(value)]
    return shlex.join(words)
