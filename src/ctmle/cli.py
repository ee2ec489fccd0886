"""The front door: `ctmle train`, `evaluate`, `oracle`, `envs`.

JAX is imported only once a command really runs, so that help and mistakes answer at once.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Literal

import tyro

from ctmle.config import ENVIRONMENT_NAMES, PRESET_NAMES, EnvironmentName, TrainConfig, preset

USER_ERROR = 2


@dataclass(frozen=True)
class EvaluateCommand:
    """Score a saved policy again. The same seed gives the same score to the last digit."""

    run: tyro.conf.Positional[str]
    """Run folder, as `ctmle train` made it."""
    trajectories: int | None = None
    """Test trajectories; none: as many as the run had."""
    which: Literal["final", "best", "random"] = "final"
    """The last policy; the one whose own training episode went best; or one of a random episode, as in the paper."""
    json: bool = False
    """Print one JSON object instead of a sentence."""


@dataclass(frozen=True)
class OracleCommand:
    """Improve a policy in the true SDE: the u* that regret is measured against.

    The same improver as in training, but nothing has to be learned about the system.
    """

    environment: tyro.conf.Positional[EnvironmentName]
    """Which system to control (see `ctmle envs`)."""
    sigma: float = 2.0
    """[sigma] Noise level; the diffusion is sigma * unit on every coordinate."""
    unit: float | None = None
    """Diffusion per sigma; none: the environment's own."""
    episodes: int = 8
    """Rounds of policy updates; the best round by its test score counts."""
    policy_updates: int = 250
    """Policy updates per round."""
    trajectories: int = 40
    """Test trajectories per round."""
    seed: int = 0
    """Seed of everything random."""
    json: bool = False
    """Print one JSON object instead of lines."""


@dataclass(frozen=True)
class EnvsCommand:
    """List the environments: dimensions, controls, horizon, noise and reward."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run the command. A user's mistake ends in one line and exit code 2."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    command = _parse(arguments)
    from ctmle import commands

    try:
        commands.run(command)
    except (ValueError, OSError) as error:
        sys.exit(_complain(str(error)))
    except KeyboardInterrupt:
        sys.exit(_complain("stopped"))


def _parse(arguments: list[str]) -> TrainConfig | EvaluateCommand | OracleCommand | EnvsCommand:
    """Presets are defaults, so which preset and environment are asked for is looked up before the rest is parsed."""
    environment = next((a for a in arguments if a in ENVIRONMENT_NAMES), "pendulum")
    if len(arguments) > 1 and arguments[0] in ("train", "oracle") and not arguments[1].startswith("-"):
        _check_environment(arguments[1])
    start = preset(environment, _option(arguments, "--preset", PRESET_NAMES))
    commands = (
        Annotated[TrainConfig, tyro.conf.subcommand("train", default=start)]
        | Annotated[EvaluateCommand, tyro.conf.subcommand("evaluate")]
        | Annotated[OracleCommand, tyro.conf.subcommand("oracle")]
        | Annotated[EnvsCommand, tyro.conf.subcommand("envs")]
    )
    return tyro.cli(
        commands,  # pyright: ignore[reportArgumentType]
        prog="ctmle",
        args=arguments,
        description="Continuous-time reinforcement learning: control noisy systems when every look costs something.",
    )


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


if __name__ == "__main__":
    main()
