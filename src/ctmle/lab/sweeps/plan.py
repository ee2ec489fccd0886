"""Which runs a sweep is made of: distinct configs, each with a name that tells it from the others."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ctmle.checks import check_config
from ctmle.config import TrainConfig
from ctmle.lab.storage.files import digest

NOT_LEARNED_FROM = ("preset", "config", "out", "threads", "checkpoint_every", "checkpoints_kept")
"""Settings that change nothing about what a run learns: where the others came from, where files go and how often.

Threads are among them: they may change the last digits of a sum, but not what was asked for.
"""

DIGEST_LENGTH = 12
"""Hexadecimal digits of the name. Among a hundred thousand runs two share them once in fifty thousand sweeps."""

LONGEST_LABEL = 120
"""Characters before the digest: file systems allow 255 in all."""


@dataclass(frozen=True)
class PlannedRun:
    """One run of a sweep."""

    name: str
    """Of its folder: what varies, and the digest of all that it learns from."""
    config: TrainConfig


@dataclass(frozen=True)
class Plan:
    """The runs of a sweep in their order, no two of which are the same."""

    runs: tuple[PlannedRun, ...]
    varying: tuple[str, ...] = ()
    """Settings, besides environment, agent and seed, in which runs of one environment and agent differ."""
    asked: dict[str, Any] = field(default_factory=dict)
    """What the runs were made from, for the record: whatever JSON can hold."""

    @staticmethod
    def of(configs: Iterable[TrainConfig], asked: dict[str, Any] | None = None) -> "Plan":
        """A run for each config, once. Raises ValueError for a config that cannot work, or if there is none."""
        distinct: dict[str, TrainConfig] = {}
        for config in configs:
            check_config(config)
            distinct.setdefault(digest(content_of(config)), config)
        if not distinct:
            raise ValueError("a sweep needs at least one run")
        varying = _varying(distinct.values())
        runs = [
            PlannedRun(f"{_label(config, varying[_group(config)])}-{sum_[:DIGEST_LENGTH]}", config)
            for sum_, config in distinct.items()
        ]
        everywhere = dict.fromkeys(name for names in varying.values() for name in names)
        return Plan(tuple(runs), tuple(everywhere), asked or {})


def content_of(config: TrainConfig) -> dict[str, Any]:
    """All that a run learns from, by name; 2 and 2.0 are the same, and so are lists and tuples."""
    content = {**vars(config), "learner": vars(config.learner), "evaluation": vars(config.evaluation)}
    learned_from = {name: value for name, value in content.items() if name not in NOT_LEARNED_FROM}
    return json.loads(json.dumps(learned_from), parse_int=float)


def settings_of(config: TrainConfig) -> dict[str, Any]:
    """Every setting of a config by name alone, as files of settings may give them."""
    own = {name: value for name, value in vars(config).items() if name not in ("learner", "evaluation")}
    return {**own, **vars(config.learner), **vars(config.evaluation)}


def kind_of(config: TrainConfig) -> str:
    """The same for runs that share compiled programs: those that differ in their seed alone."""
    return digest({**content_of(config), "seed": None})


def _group(config: TrainConfig) -> tuple[str, ...]:
    """Runs are compared with those of their own preset: presets set many things at once."""
    return config.environment, config.agent, *([config.preset] if config.preset != "default" else [])


def _varying(configs: Iterable[TrainConfig]) -> dict[tuple[str, ...], list[str]]:
    """The settings in which runs of a group differ, but for their seeds."""
    seen: dict[tuple[str, ...], dict[str, set[str]]] = {}
    for config in configs:
        own = settings_of(config)
        values = seen.setdefault(_group(config), {name: set() for name in own})
        for name, value in own.items():
            values[name].add(repr(value))
    aside = ("seed", *NOT_LEARNED_FROM)
    return {group: [n for n, found in values.items() if len(found) > 1 and n not in aside]
            for group, values in seen.items()}  # fmt: skip


def _label(config: TrainConfig, varying: list[str]) -> str:
    own = settings_of(config)
    words = "-".join([*_group(config), *(_word(name, own[name]) for name in varying)])
    return f"{words[:LONGEST_LABEL]}-seed{config.seed}"


def _word(name: str, value: Any) -> str:
    """A setting in the name of a run; choices speak for themselves."""
    if isinstance(value, bool):
        return name if value else f"no_{name}"
    if isinstance(value, str):
        return value
    if isinstance(value, tuple):
        return name + "x".join(map(str, value))
    return f"{name}{value:g}" if isinstance(value, float) else f"{name}{value}"
