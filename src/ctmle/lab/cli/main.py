"""The front door: `ctmle train`, `ctmle resume`, `ctmle evaluate`, ...

The module of a command is imported once it is asked for, so that help and mistyped names answer without JAX.
"""

import sys
from collections.abc import Sequence
from importlib import import_module

import ctmle
from ctmle.registry import no_such
from ctmle.settings import SettingError, plain

RUN_FAILED, USER_ERROR = 1, 2

NAMED_WRONGLY = (FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError)
"""Errors of the system that a user's path causes, rather than the disk."""

MORE_MEMORY = "free some, raise `ulimit -v`, or choose smaller settings; a run continues with `ctmle resume`"

COMMANDS: dict[str, tuple[str, str]] = {
    "train": ("train:train", "learn to control a system, and save everything about it in a run folder"),
    "evaluate": ("evaluate:evaluate", "score a saved policy again"),
    "resume": ("train:resume", "continue a run that was stopped or killed"),
    "compare": ("evaluate:compare", "compare runs: a table and a plot of scores against episodes and looks"),
    "sweep": ("sweep:sweep", "do many runs on all cores or on a Ray cluster"),
    "envs": ("evaluate:envs", "list the environments"),
    "oracle": ("evaluate:oracle", "improve a policy in the true SDE: the best score to hope for"),
    "reproduce": ("sweep:reproduce", "repeat one of the paper's experiments and judge its claims"),
    "exact": ("exact:main", "play the paper's exact algorithm on a finite class of SDEs"),
    "theory": ("theory:main", "compute the paper's bounds, complexities and plans"),
}
"""Module and function of each command, and what it does."""

HELP = """usage: ctmle COMMAND ...

Continuous-time reinforcement learning: control noisy systems when every look costs something.

  ctmle train pendulum                     learn to swing up a noisy pendulum (a minute or two)
  ctmle evaluate runs/... --trajectories 100    score what was learned
  ctmle resume runs/...                    continue after Ctrl-C or a crash

commands:
{commands}

`ctmle COMMAND --help` lists the options of a command; `ctmle --version` names the version.
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command. A user's mistake ends in one line on stderr and exit code 2."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        _run(arguments)
    except BrokenPipeError:  # the reader of a pipe has seen enough
        sys.stderr.close()
    except SettingError as error:
        sys.exit(_complain(error.on_command_line, USER_ERROR))
    except (ValueError, *NAMED_WRONGLY) as error:
        sys.exit(_complain(str(error), USER_ERROR))
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        said = f"{place}{error.strerror or error}; what was there before is intact: fix that, and try again"
        sys.exit(_complain(said, RUN_FAILED))
    except MemoryError as error:
        sys.exit(_complain(f"memory ran out ({error or 'no more'}): {MORE_MEMORY}", RUN_FAILED))
    except RuntimeError as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        short = "RESOURCE_EXHAUSTED" in reason or "Out of memory" in reason
        sys.exit(_complain(f"{reason}: {MORE_MEMORY}" if short else str(error), RUN_FAILED))
    except KeyboardInterrupt:
        sys.exit(_complain("stopped", USER_ERROR))


def _run(arguments: list[str]) -> None:
    if arguments[:1] in (["--help"], ["-h"]):
        lines = [f"  {name:<10} {what}" for name, (_, what) in COMMANDS.items()]
        print(HELP.format(commands="\n".join(lines)), end="")
        return
    if arguments == ["--version"]:
        from ctmle.lab.machine import code_commit

        commit = code_commit()
        print(f"ctmle {ctmle.__version__}" + (f" (commit {commit})" if commit else ""))
        return
    if not arguments:
        raise ValueError("say what to do: `ctmle train pendulum`, for example (see `ctmle --help`)")
    if arguments[0] not in COMMANDS:
        raise ValueError(no_such("command", arguments[0], list(COMMANDS)))
    module, _, function = COMMANDS[arguments[0]][0].partition(":")
    from ctmle.lab.interrupt import Interrupted
    from ctmle.lab.machine import check_surroundings

    check_surroundings()
    try:
        getattr(import_module(f"ctmle.lab.cli.{module}"), function)(arguments[1:])
    except Interrupted as stop:
        sys.exit(stop.exit_code)


def _complain(message: str, code: int) -> int:
    print(f"ctmle: {plain(' '.join(message.split()))}", file=sys.stderr)
    return code
