"""The front door: `ctmle train`, `evaluate`, `oracle`, `envs`.

JAX is imported only once a command really runs, so that help and mistakes answer at once.
"""

import functools
import operator
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Annotated, Any

import tyro

from ctmle.checks import check_config
from ctmle.config import (
    AGENT_NAMES,
    COMMANDS,
    ENVIRONMENT_NAMES,
    PRESET_NAMES,
    EvaluateCommand,
    OracleCommand,
    TrainConfig,
    preset,
)

USER_ERROR = 2
RUN_FAILED = 1


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run the command. A user's mistake ends in one line and exit code 2."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        command = _parse(arguments)
        _check(command)
        from ctmle import commands
        from ctmle.experiments.interrupt import Interrupted

        try:
            commands.run(command)
        except Interrupted as stop:
            sys.exit(stop.exit_code)
    except BrokenPipeError:  # the reader of a pipe has seen enough
        sys.stderr.close()
    except (ValueError, OSError) as error:
        sys.exit(_complain(str(error)))
    except RuntimeError as error:
        _complain(str(error))
        sys.exit(RUN_FAILED)
    except KeyboardInterrupt:
        sys.exit(_complain("stopped"))


def _check(command: Any) -> None:
    """What can be refused without loading JAX is refused at once."""
    if isinstance(command, TrainConfig):
        check_config(command)
    if (
        isinstance(command, EvaluateCommand | OracleCommand)
        and command.trajectories is not None
        and command.trajectories < 1
    ):
        raise ValueError(f"--trajectories must be at least 1, not {command.trajectories}")
    if isinstance(command, OracleCommand) and command.episodes < 1:
        raise ValueError(f"--episodes must be at least 1, not {command.episodes}")


def _parse(arguments: list[str]) -> Any:
    """Presets are defaults, so which preset, agent and environment are asked for is looked up before the rest."""
    environment = next((a for a in arguments if a in ENVIRONMENT_NAMES), "pendulum")
    if len(arguments) > 1 and arguments[0] in ("train", "oracle") and not arguments[1].startswith("-"):
        _check_environment(arguments[1])
    agent = _option(arguments, "--agent", AGENT_NAMES)
    start = preset(environment, _option(arguments, "--preset", PRESET_NAMES), agent)
    kinds = [_subcommand(name, kind, start) for name, kind in COMMANDS.items()]
    return tyro.cli(
        functools.reduce(operator.or_, kinds),
        prog="ctmle",
        args=arguments,
        description="Continuous-time reinforcement learning: control noisy systems when every look costs something.",
    )


def _subcommand(name: str, kind: type, start: TrainConfig) -> Any:
    if kind is TrainConfig:
        return Annotated[kind, tyro.conf.subcommand(name, default=start)]
    return Annotated[kind, tyro.conf.subcommand(name)]


def _option(arguments: list[str], name: str, known: Sequence[str]) -> str:
    for i, argument in enumerate(arguments):
        value = argument.removeprefix(name + "=") if argument.startswith(name + "=") else None
        if argument == name and i + 1 < len(arguments):
            value = arguments[i + 1]
        if value is not None and value in known:
            return value
    return known[0]


def _check_environment(name: str) -> None:
    if name not in ENVIRONMENT_NAMES:
        near = get_close_matches(name, ENVIRONMENT_NAMES, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(ENVIRONMENT_NAMES)}"
        sys.exit(_complain(f"no environment is called '{name}': {hint}"))


def _complain(message: str) -> int:
    print(f"ctmle: {message}", file=sys.stderr)
    return USER_ERROR
