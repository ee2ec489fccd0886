"""Parse the words of one command, and spell a command in words. A mistake becomes a ValueError of one line."""

import io
import re
import shlex
from collections.abc import Collection
from contextlib import redirect_stderr
from dataclasses import MISSING, fields
from typing import Any

import tyro

from ctmle.settings import spelled

USER_ERROR = 2


def parse(kind: Any, arguments: list[str], prog: str, **how: Any) -> Any:
    """Return the command that the words ask for: a dataclass of settings, or what a function returns for its options.

    Help prints itself and exits.
    """
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            return tyro.cli(kind, prog=prog, args=arguments, **how)
    except SystemExit as stop:
        if stop.code != USER_ERROR:
            raise
        line = _one_line(said.getvalue(), prog)
        refused = re.search(r"Error parsing \S+: \w+\.(\w+) (must be .*?)(?: \(see|$)", line)
        if refused:  # a value that its type does not allow
            line = f"{spelled(refused[1])} {refused[2]}"
        raise ValueError(line) from stop


def _one_line(box: str, prog: str) -> str:
    """Return the first paragraph of tyro's box of several, and the option that was perhaps meant."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", box)
    drawn = plain.startswith("╭")  # elsewhere the title is a paragraph of its own
    lines = [line.strip("│ ") for line in plain.splitlines() if line.strip() and line[0] not in "╭╰"]
    paragraphs: list[list[str]] = [[]]
    for line in lines:
        if set(line) <= {"─", "-"}:
            paragraphs.append([])
        else:
            paragraphs[-1].append(line)
    said = " ".join(paragraphs[0 if drawn else 1]).rstrip(".")
    for paragraph in paragraphs:
        if paragraph and paragraph[0].startswith("Perhaps you meant"):
            said += f": did you mean {paragraph[1].split()[0]}?"
    return f"{said} (see `{prog} --help`)"


def command_line(command: Any, leave_out: Collection[str] = ()) -> str:
    """Return the command line that reproduces a command: positionals first, then options that differ from defaults.

    The class is named after the command: `SweepCommand` is `ctmle sweep`.
    """
    words = ["ctmle", type(command).__name__.removesuffix("Command").lower()]
    for field in sorted(fields(command), key=lambda field: field.default is not MISSING):
        value = getattr(command, field.name)
        if field.default is MISSING:
            words.append(str(value))
        elif value != field.default and field.name not in leave_out:
            words.append(spelled(field.name))
            words += [] if value is True else map(str, value) if isinstance(value, tuple) else [str(value)]
    return shlex.join(words)
