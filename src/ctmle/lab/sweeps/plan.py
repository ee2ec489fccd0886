"""The runs that a sweep is made of: distinct experiments, each with a name of its own."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ctmle.lab.experiment import Experiment
from ctmle.lab.report.results import Settings, options_in
from ctmle.lab.storage.files import digest
from ctmle.lab.storage.run_folder import short_name

NOT_LEARNED_FROM = ("preset", "out", "threads", "checkpoint_every", "checkpoints_kept")
"""Settings that change nothing about what a run learns: where the others came from, where files go and how often.

Threads are among them: they may change the last digits of a sum, but not what was asked for.
"""

DIGEST_LENGTH = 12
"""Hexadecimal digits in a run's name. Among a hundred thousand runs two share them once in fifty thousand sweeps."""

LONGEST_LABEL = 120
"""Characters before the digest: file systems allow 255 in all."""


@dataclass(frozen=True)
class PlannedRun:
    """One run of a sweep. `from_settings(run.settings)` is its experiment."""

    name: str
    """Name of its folder: the settings that vary, and the digest of everything that it learns from."""
    settings: Settings
    kind: str
    """Digest that is equal for runs that share compiled programs: those that differ only in their seed."""


@dataclass(frozen=True)
class Plan:
    """The runs of a sweep in their order, no two of them equal."""

    runs: tuple[PlannedRun, ...]
    varying: tuple[str, ...] = ()
    """Settings, besides environment, agent and seed, in which runs of one environment and agent differ."""
    asked: dict[str, Any] = field(default_factory=dict)
    """The request that the runs were made from, as JSON, for the record."""

    @staticmethod
    def of(experiments: Iterable[Experiment], asked: dict[str, Any] | None = None) -> "Plan":
        """Plan one run for each distinct experiment. Raises ValueError if there is none."""
        distinct: dict[str, Settings] = {}
        for experiment in experiments:
            settings = settings_of(experiment)
            distinct.setdefault(digest(content_of(settings)), settings)
        if not distinct:
            raise ValueError("a sweep needs at least one run")
        varying = _varying(distinct.values())
        runs = [
            PlannedRun(f"{_label(own, varying[_group(own)])}-{sum_[:DIGEST_LENGTH]}", own, kind_of(own))
            for sum_, own in distinct.items()
        ]
        everywhere = dict.fromkeys(name for names in varying.values() for name in names)
        return Plan(tuple(runs), tuple(everywhere), asked or {})


def settings_of(experiment: Experiment) -> Settings:
    """Return every option of an experiment by its name, with lists for tuples: as JSON holds them."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in experiment.settings.items()}


def content_of(settings: dict[str, Any]) -> dict[str, Any]:
    """Return everything that a run learns from, by name; 2 equals 2.0. Takes the content of a config.json, too."""
    learned_from = {name: value for name, value in options_in(settings).items() if name not in NOT_LEARNED_FROM}
    return json.loads(json.dumps(learned_from), parse_int=float)


def kind_of(settings: Settings) -> str:
    """Return a digest that is equal for runs that share compiled programs: those that differ only in their seed."""
    return digest({**content_of(settings), "seed": None})


def _group(settings: Settings) -> tuple[str, ...]:
    """Return the names of environment, agent and preset: runs are compared within these groups.

    Presets set many options at once, so their names tell more than the options would.
    """
    preset = [settings["preset"]] if settings["preset"] != "default" else []
    return short_name(settings["environment"]), settings["agent"], *preset


def _varying(runs: Iterable[Settings]) -> dict[tuple[str, ...], list[str]]:
    """List the settings, seeds aside, in which the runs of each group differ."""
    seen: dict[tuple[str, ...], dict[str, set[str]]] = {}
    for own in runs:
        values = seen.setdefault(_group(own), {})
        for name, value in own.items():
            values.setdefault(name, set()).add(repr(value))
    aside = ("seed", *NOT_LEARNED_FROM)
    return {group: [n for n, found in values.items() if len(found) > 1 and n not in aside]
            for group, values in seen.items()}  # fmt: skip


def _label(settings: Settings, varying: list[str]) -> str:
    words = [*_group(settings), *(_word(name, settings[name]) for name in varying if name in settings)]
    return f"{'-'.join(words)[:LONGEST_LABEL]}-seed{settings['seed']}"


def _word(name: str, value: Any) -> str:
    """Spell a setting in the name of a run; choices are spelled without the name of the setting."""
    if isinstance(value, bool):
        return name if value else f"no_{name}"
    if isinstance(value, str):
        return value.replace("/", "_")
    if isinstance(value, list):
        return name + "x".join(map(str, value))
    return f"{name}{value:g}" if isinstance(value, float) else f"{name}{value}"
