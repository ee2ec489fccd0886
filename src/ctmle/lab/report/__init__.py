"""Results of runs, and how they are shown: progress, tables, statistics and pictures."""

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from ctmle.settings import plain

if TYPE_CHECKING:
    from rich.console import Console


def say(console: "Console", line: str, style: str = "") -> None:
    """Print a line as it is: not folded, so that a command can be pasted; markup and control characters are text.

    If nobody can receive it (a closed pipe, a full disk), the work goes on without output.
    """
    try:
        console.print(plain(line), style=style, highlight=False, markup=False, soft_wrap=True)
    except (OSError, SystemExit):  # with the latter, rich answers a closed pipe
        with suppress(OSError, ValueError):  # an output that is no file
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
