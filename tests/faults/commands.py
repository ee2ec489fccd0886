"""The command line inside this process: exit code, output, and nothing that lasts longer than it may."""

import io
import json
import resource
import signal
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from types import FrameType
from typing import Any

from ctmle.lab.cli.main import main

HANGS = 10
"""Seconds that no command may take longer than, if it has nothing to compute."""


@dataclass(frozen=True)
class Answer:
    """The end of a command."""

    code: Any
    out: str
    err: str

    @property
    def is_a_sentence(self) -> bool:
        """True if the command was refused in one line on standard error."""
        return self.code in (1, 2) and self.err.startswith("ctmle: ") and len(self.err.splitlines()) == 1

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Hung(BaseException):
    """A command took too long."""


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    def give_up(number: int, frame: FrameType | None) -> None:
        raise Hung(f"took longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def run(*arguments: str, seconds: int = HANGS) -> Answer:
    """Run a command. A hang or an exception that nobody caught is an answer with a traceback."""
    out, err = io.StringIO(), io.StringIO()
    code: Any = 0
    try:
        with redirect_stdout(out), redirect_stderr(err), at_most(seconds):
            main(arguments)
    except SystemExit as stop:
        code = stop.code
    except (Exception, Hung):
        code = "traceback"
        err.write(traceback.format_exc())
    return Answer(code, out.getvalue(), err.getvalue())


def memory() -> int:
    """Return the most bytes that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
