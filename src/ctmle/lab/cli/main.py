"""The front door: `ctmle train`, `resume`, `evaluate`, ...

JAX is imported only once a command really runs, so that help and mistakes answer at once.
"""

import functools
import io
import operator
import re
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr
from typing import Annotated, Any

import tyro

from ctmle.checks import check_config, check_fields
from ctmle.config import COMMANDS, ENVIRONMENT_NAMES, ExactConfig, ReproduceCommand, TheoryCommand, TrainConfig
from ctmle.config.exact import resolved
from ctmle.config.reproduce import check_reproduce
from ctmle.settings_file import apply_settings, no_such, read_settings, starting_point

USER_ERROR = 2
RUN_FAILED = 1


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run the command. A user's mistake ends in one line and exit code 2."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        command = _parse(arguments)
        _check(command)
        from ctmle.lab.cli.dispatch import run
        from ctmle.lab.interrupt import Interrupted

        try:
            run(command)
        except Interrupted as stop:
            sys.exit(stop.exit_code)
    except BrokenPipeError:  # the reader of a pipe has seen enough
        sys.stderr.close()
    except (ValueError, OSError) as error:
        sys.exit(_complain(str(error), USER_ERROR))
    except (RuntimeError, MemoryError) as error:
        sys.exit(_complain(str(error) or type(error).__name__, RUN_FAILED))
    except KeyboardInterrupt:
        sys.exit(_complain("stopped", USER_ERROR))


def _check(command: Any) -> None:
    """What can be refused without loading JAX is refused at once."""
    if isinstance(command, TrainConfig):
        check_config(command)
    elif isinstance(command, ExactConfig):
        resolved(command)
    else:
        check_fields(command.question if isinstance(command, TheoryCommand) else command)
        if isinstance(command, ReproduceCommand):
            check_reproduce(command)


def _parse(arguments: list[str]) -> Any:
    """The command that is asked for. Raises ValueError for a command line that is none."""
    kinds = [_subcommand(name, kind, arguments) for name, kind in COMMANDS.items()]
    if arguments and arguments[0] not in COMMANDS and not arguments[0].startswith("-"):
        raise ValueError(no_such("command", arguments[0], list(COMMANDS)))
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            return tyro.cli(
                functools.reduce(operator.or_, kinds),
                prog="ctmle",
                args=arguments,
                description="Continuous-time reinforcement learning: control noisy systems when every look costs.",
            )
    except SystemExit as stop:
        if stop.code != USER_ERROR:
            raise
        raise ValueError(_one_line(said.getvalue())) from stop


def _subcommand(name: str, kind: type, arguments: list[str]) -> Any:
    if kind is not TrainConfig:
        return Annotated[kind, tyro.conf.subcommand(name)]
    asked = arguments[:1] == [name]
    return Annotated[kind, tyro.conf.subcommand(name, default=_start(arguments) if asked else TrainConfig())]


def _start(arguments: list[str]) -> TrainConfig:
    """Where the settings start from: the preset that the command line and the file, if there is one, ask for."""
    environment = next((a for a in arguments[1:] if a in ENVIRONMENT_NAMES), None)
    if environment is None and len(arguments) > 1 and not arguments[1].startswith("-"):
        raise ValueError(no_such("environment", arguments[1], ENVIRONMENT_NAMES))
    asked = {
        "environment": environment,
        "preset": _option(arguments, "--preset"),
        "agent": _option(arguments, "--agent"),
    }
    asked = {name: value for name, value in asked.items() if value is not None}
    start, file = starting_point(asked), _option(arguments, "--config")
    if file is None:
        return start
    try:
        settings = read_settings(file)
        return apply_settings(starting_point(settings | asked), settings)
    except ValueError as error:
        raise ValueError(f"--config {file}: {error}") from error


def _option(arguments: list[str], name: str) -> str | None:
    for argument, following in zip(arguments, [*arguments[1:], None], strict=True):
        if argument == name:
            return following
        if argument.startswith(name + "="):
            return argument.removeprefix(name + "=")
    return None


def _one_line(box: str) -> str:
    """What tyro says in a box of several paragraphs: the first of them, and the option that was perhaps meant."""
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
    return f"{said} (see `ctmle --help`)"


def _complain(message: str, code: int) -> int:
    print(f"ctmle: {' '.join(message.split())}", file=sys.stderr)
    return code
