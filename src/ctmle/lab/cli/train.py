"""`ctmle train` and `ctmle resume`."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, make_dataclass
from functools import reduce
from itertools import dropwhile
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_origin

import tyro
from tyro.conf import OmitArgPrefixes

from ctmle.lab.cli.parse import parse
from ctmle.lab.report import say
from ctmle.options import variant_options, walk
from ctmle.registry import AGENTS, ENVIRONMENTS
from ctmle.settings import Part, alternatives, spelled, typed

if TYPE_CHECKING:
    from rich.console import Console

    from ctmle.lab.experiment import Evaluation, Experiment
    from ctmle.lab.session import Session
    from ctmle.lab.storage.run_folder import RunFolder
    from ctmle.options import Option

ORIGIN = ("environment", "agent", "preset")
"""Options that decide what the others start from."""

GROUPS = ("run", "system", "looking", "data", "model", "planning", "evaluation", "files")

HELP = """Learn to control a system, and save everything about it in a run folder.

    ctmle train pendulum --sigma 2.0 --episodes 5 --seed 0
    ctmle train cartpole --gap 0.05 --preset quick --out runs/first-try
    ctmle train tank.py:Tank --sigma 0.5        # an environment of your own (docs/extending.md)
    ctmle train gymnasium:Pendulum-v1           # an environment of Gymnasium (docs/plants.md)

Symbols in brackets are those of the paper's tables. Defaults are those of the agent's preset for this system."""


def train(arguments: list[str]) -> None:
    """Train as the words ask for."""
    experiment = experiment_from(arguments)
    from rich.console import Console

    from ctmle.lab.session import Session

    _go(Session.begin(experiment), Console())


def experiment_from(arguments: list[str]) -> "Experiment":
    """Return the experiment that the words after `ctmle train` ask for, starting from a file of settings if named."""
    if arguments and not arguments[0].startswith("-") and ":" not in arguments[0]:
        ENVIRONMENTS.check(arguments[0])
    file = _value_of(arguments, "config")
    settings = {} if file is None else _read(file)
    filed = {name: settings[name] for name in ORIGIN if name in settings}
    asked = {name: value for name in ("agent", "preset") if (value := _value_of(arguments, name)) is not None}
    environment = None
    try:
        environment = _positional(arguments, _start({**filed, **asked, "environment": "pendulum"}))
        base = _start({**filed, **asked, **({} if environment is None else {"environment": environment})})
    except ValueError as error:
        theirs = filed.keys() - asked.keys() - ({"environment"} if environment else set())
        raise ValueError(f"--config {file}: {error}" if theirs else str(error)) from error
    given = _given(arguments, base)
    try:
        return base.changed({**settings, **given})
    except ValueError:
        if file is not None:
            _check_file(file, base, settings)
        raise


def _start(origin: dict[str, Any]) -> "Experiment":
    """Return the experiment that options start from; an agent that does not exist is refused before JAX is loaded."""
    for name, value in origin.items():
        if not isinstance(value, str):
            raise ValueError(f"{name} must be a text, not {value!r}")
    AGENTS.check(origin.get("agent", "ct-mle"))
    from ctmle.lab.experiment import start

    return start(**origin)


def _read(file: str) -> dict[str, Any]:
    from ctmle.lab.settings_file import read_settings

    try:
        return read_settings(file)
    except ValueError as error:
        raise ValueError(f"--config {file}: {error}") from error


def _check_file(file: str, base: "Experiment", settings: dict[str, Any]) -> None:
    """Raise ValueError with the file's name if its settings alone cannot work."""
    try:
        base.changed(settings)
    except ValueError as error:
        raise ValueError(f"--config {file}: {getattr(error, 'on_command_line', error)}") from error


def _given(arguments: list[str], base: "Experiment") -> dict[str, Any]:
    """Parse the words and return the options that were given, by name."""
    options = {**{option.name: option for option in walk(base)}, **variant_options(base)}
    flags = {word.partition("=")[0].replace("_", "-") for word in arguments if word.startswith("--")}
    for name in ENVIRONMENTS.names:
        for other in walk(ENVIRONMENTS.load(name)()):
            if spelled(other.name) in flags and other.name not in options:
                raise ValueError(
                    f"environment '{base.environment}' has no setting '{other.name}': leave out"
                    f" {spelled(other.name)}, which is for {name}"
                )
    parsed = parse(_command(base, options), arguments, "ctmle train", description=HELP, config=(OmitArgPrefixes,))
    groups = {name: vars(getattr(parsed, name)) for name in GROUPS}
    given = {name: value for group in groups.values() for name, value in group.items() if _flags(name) & flags}
    return {name: value for name, value in given.items() if name not in ("agent", "preset", "config")}


def _command(base: "Experiment", options: dict[str, "Option"]) -> Any:
    """Make the dataclass that tyro parses: one nested dataclass per group of options."""
    from ctmle.lab.experiment import presets_of

    presets = presets_of(base.algorithm)
    grouped: dict[str, list[Any]] = {name: [] for name in GROUPS}
    grouped["run"] += [
        _field("agent", Literal[AGENTS.names], base.algorithm, "Algorithm that learns."),
        _field("preset", Literal[tuple(presets)], base.preset, f"Options to start from (docs/{base.algorithm}.md)."),
    ]
    grouped["files"].append(
        _field("config", str | None, None, "File of settings to start from (.toml, .json or an earlier config.json).")
    )
    for option in options.values():
        if option.name not in ("environment", "agent", "preset"):
            hint = _plain_type(option.hint)
            grouped[_group(option)].append(_field(option.name, hint, option.value, option.help))
    environment = Annotated[str, tyro.conf.Positional, tyro.conf.arg(help="System to control (see `ctmle envs`).")]
    columns: list[Any] = [("environment", environment, field(default=base.environment))]
    for name, members in grouped.items():
        kind = make_dataclass(name.capitalize(), members, frozen=True)
        columns.append((name, Annotated[kind, tyro.conf.arg(help="")], field(default_factory=kind)))
    return make_dataclass("Train", columns, frozen=True)


def _field(name: str, hint: Any, value: Any, text: str) -> Any:
    return name, Annotated[hint, tyro.conf.arg(help=text)], field(default=value)


def _plain_type(hint: Any) -> Any:
    """Remove the limits from a type: values are checked when the parts are made."""
    kinds = [alternatives(kind)[0] for kind in alternatives(hint)]
    return reduce(or_, kinds)


def _group(option: "Option") -> str:
    root, inner = option.path[0], option.path[1] if len(option.path) > 1 else ""
    if root == "agent":
        places = {"learner": "model", "improver": "planning", "holding": "looking", "chunk": "files"}
        return places.get(inner, "data")
    if root == "training":
        return "system" if inner in ("observation", "step") else "run"
    return {"env": "system", "schedule": "looking"}.get(root, root)


def _positional(arguments: list[str], base: "Experiment") -> str | None:
    """Return the first word that is neither an option nor the value of one."""
    hints = {option.name: option.hint for option in (*walk(base), *variant_options(base).values())}
    words = iter(arguments)
    for word in words:
        if not word.startswith("--"):
            return None if word.startswith("-") else word
        name = word.removeprefix("--").replace("-", "_")
        kinds = alternatives(hints.get(name, str)) if "=" not in word and not name.startswith("no_") else (bool,)
        if any(get_origin(kind) is tuple or kind is tuple for kind in kinds):
            words = iter(list(dropwhile(lambda value: not value.startswith("--"), words)))
        elif bool not in kinds:
            next(words, None)
    return None


def _value_of(arguments: list[str], name: str) -> str | None:
    """Return the value of an option that decides what the others are."""
    for word, following in zip(arguments, [*arguments[1:], None], strict=True):
        if word == f"--{name}":
            return following
        if word.startswith(f"--{name}="):
            return word.partition("=")[2]
    return None


def _flags(name: str) -> set[str]:
    return {spelled(name), spelled(f"no_{name}")}


@dataclass(frozen=True)
class ResumeCommand(Part):
    """Continue a run that was stopped or killed; it ends exactly as it would have without the stop."""

    run: tyro.conf.Positional[str]
    """Run folder, as `ctmle train` made it."""
    environment: str | None = None
    """Place of the environment of your own that the run was trained on, such as tank.py:Tank."""
    trust: bool = False
    """Import code from outside ctmle that the run folder names."""
    accept_different: bool = False
    """Continue although the machine, versions, flags or code differ: the result will not be the same bytes."""


def resume(arguments: list[str]) -> None:
    """Resume the run that the words name."""
    command = parse(ResumeCommand, arguments, "ctmle resume")
    from rich.console import Console

    from ctmle.lab.report.progress import warnings_on
    from ctmle.lab.session import Session

    console = Console()
    with warnings_on(console):
        session = Session.resume(
            command.run, command.environment, trust=command.trust, accept_different=command.accept_different
        )
    folder, checkpoint = session.folder, session.checkpoint
    if checkpoint is None:
        say(console, f"{folder.path} has no checkpoint yet: it starts from the beginning")
        return _go(session, console)
    for warning in checkpoint.warnings:
        say(console, f"skipped a bad checkpoint: {warning}")
    if checkpoint.finished:
        say(console, f"{folder.path} is finished: there is nothing to resume")
        return _conclude(folder, session.job.experiment, console)
    say(console, f"resuming from {checkpoint.path}")
    return _go(session, console)


def _go(session: "Session", console: "Console") -> None:
    from ctmle.lab.interrupt import Interrupted
    from ctmle.lab.report.progress import RunDisplay, warnings_on

    experiment, folder = session.job.experiment, session.folder
    origin = f"seed {experiment.training.seed}, preset {experiment.preset}"
    say(console, f"{title(experiment)}, {origin}; run folder {folder.path}")
    try:
        with RunDisplay(experiment.training.episodes, console) as display, warnings_on(console):
            session.train((display,))
    except Interrupted as stop:
        again = typed("resume", folder.path, *naming(experiment))
        say(console, f"{stop}; everything is saved. Continue with: {again}")
        raise
    _conclude(folder, experiment, console)


def _conclude(folder: "RunFolder", experiment: "Experiment", console: "Console") -> None:
    from ctmle.lab.report.pictures import plot_learning_curve
    from ctmle.lab.report.progress import episode_table
    from ctmle.lab.report.results import to_show
    from ctmle.lab.storage.files import unwritable

    evaluation, shown = experiment.evaluation, to_show(folder.read_results())
    console.print(episode_table(shown))
    say(console, _verdict(evaluation, folder.read_results()))
    try:
        plot_learning_curve(folder.learning_curve, title(experiment), evaluation, shown)
    except OSError as error:
        again = typed("resume", folder.path, *naming(experiment))
        raise RuntimeError(
            f"{unwritable(error, folder.learning_curve)}; the run is finished and everything else is"
            f" saved. Fix that, then draw it with: {again}"
        ) from error
    say(console, f"run folder: {folder.path} (config, metrics, weights, data and {folder.learning_curve.name})")
    say(console, f"next: {typed('evaluate', folder.path, '--trajectories', 100, *naming(experiment))}")


def naming(experiment: "Experiment") -> tuple[str, ...]:
    """Return the words that name an environment of the user's own again."""
    from ctmle.lab.systems import is_trusted

    return () if is_trusted(experiment.environment) else ("--environment", experiment.environment)


def title(experiment: "Experiment") -> str:
    """Name a run in a line: agent, environment, noise, and when it looks."""
    settings = experiment.settings
    noise = f", sigma {settings['sigma']:g}" if "sigma" in settings else ""
    if "switch_cost" in settings:
        looking = f"switch cost {settings['switch_cost']:g}"
    elif "gap" in settings:
        kind = "" if settings["schedule"] == "equidistant" else f" ({settings['schedule']})"
        looking = f"gap {settings['gap']:g} s{kind}"
    else:
        looking = f"schedule {settings['schedule']}"
    return f"{experiment.algorithm} on {experiment.environment}{noise}, {looking}"


def _verdict(evaluation: "Evaluation", records: Iterable[dict[str, Any]]) -> str:
    first, best, goal = None, -math.inf, evaluation.success
    name, quantity = {
        "mean": ("score", "a score"),
        "every": ("lowest_reward", "a lowest reward"),
        "goal": ("success_share", "a share at the goal"),
        "return": ("score", "a return"),
    }[evaluation.rule]
    for record in records:
        first, best = first or (record if record["success"] else None), max(best, record[name])
    if goal is None:
        return f"the best episode reached {quantity} of {best:.5g} (--success says what would be enough)"
    if first is None:
        return f"no episode reached {quantity} of {goal:g} (best {best:.3f}): more --episodes may help"
    return (
        f"success: {quantity} of {goal:g} was first reached in episode {first['episode']}, by a policy that had learned"
        f" from {first['experience_seconds']:.4g} s and {first['experience_looks']} looks"
    )
