"""Parse the words of one command. A mistake becomes a ValueError of one line."""

import io
import re
from contextlib import redirect_stderr
from typing import Any

import tyro

from ctmle.settings import spelled

USER_ERROR = 2


def parse(kind: Any, arguments: list[str], prog: str, **how: Any) -> Any:
    """Return the command, a dataclass of settings or a union of subcommands, that the words ask for.

    Help prints itself and exits.
    """
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            return tyro.cli(kind, prog=prog, args=arguments, **how)
    except SystemExit as stop:
        if stop.code != USER_ERROR:
            raise
        refused = re.search(
            r"Error parsing \S+: \w+\.(\w+) (must be .*?)(?: \(see|$)", _one_line(said.getvalue(), prog)
        )
        if refused:  # a value that its type does not allow
            raise ValueError(f"{spelled(refused[1])} {refused[2]}") from stop
        raise ValueError(_one_line(said.getvalue(), prog)) from stop


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
