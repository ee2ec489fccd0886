"""Random search: values of settings drawn from ranges and choices, the same ones whenever they are asked for."""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ctmle.checks import types_of
from ctmle.config import LEARNERS, EvaluationConfig, TrainConfig

MOST_SAMPLES = 1_000_000


@dataclass(frozen=True)
class Choices:
    """One of several values, each as likely as the others."""

    values: tuple[Any, ...]

    def at(self, share: float) -> Any:
        """The value below which lies this share of all draws."""
        return self.values[int(share * len(self.values))]


@dataclass(frozen=True)
class Range:
    """A number between two others, uniform or uniform in its logarithm; a whole one if the setting is a count."""

    low: float
    high: float
    log: bool
    whole: bool

    def at(self, share: float) -> float | int:
        """The value below which lies this share of all draws."""
        high = self.high + 1 if self.whole else self.high  # a whole number stands for all up to the next
        value = self.low * (high / self.low) ** share if self.log else self.low + share * (high - self.low)
        return min(int(value), int(self.high)) if self.whole else value


def draws(table: dict[str, Any]) -> list[dict[str, Any]]:
    """The samples that a table [random] asks for. Raises ValueError for one that asks for none.

    Every setting has a stream of its own, so that more samples, or more settings, leave the first ones as they were.
    """
    table = dict(table)
    samples, seed = table.pop("samples", None), table.pop("seed", 0)
    for name, value, least in (("samples", samples, 1), ("seed", seed, 0)):
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MOST_SAMPLES:
            raise ValueError(f"[random] {name} must be a whole number from {least} to {MOST_SAMPLES}, not {value!r}")
    if not table:
        raise ValueError(
            "[random] needs a setting to draw, such as policy_rate = { low = 1e-4, high = 1e-2, log = true }"
        )
    columns = {name: _stream(_kind(name, wanted), f"{seed} {name}") for name, wanted in table.items()}
    return [{name: next(stream) for name, stream in columns.items()} for _ in range(samples)]


def _stream(kind: Choices | Range, seed: str) -> Iterator[Any]:
    chance = random.Random(seed)
    while True:
        yield kind.at(chance.random())


def _kind(name: str, wanted: Any) -> Choices | Range:
    if isinstance(wanted, list) and wanted:
        return Choices(tuple(wanted))
    if not isinstance(wanted, dict) or not {"low", "high"} <= wanted.keys() <= {"low", "high", "log"}:
        raise ValueError(
            f"[random] {name} must be a list of choices or {{ low = ..., high = ..., log = true or false }}"
        )
    low, high, log = wanted["low"], wanted["high"], wanted.get("log", False)
    if not all(isinstance(bound, int | float) and math.isfinite(bound) for bound in (low, high)) or low >= high:
        raise ValueError(f"[random] {name} must have numbers low < high, not {low!r} and {high!r}")
    if not isinstance(log, bool):
        raise ValueError(f"[random] {name} log must be true or false, not {log!r}")
    if log and low <= 0:
        raise ValueError(f"[random] {name} has log = true, so low must be positive, not {low!r}")
    return Range(float(low), float(high), log, _is_count(name))


def _is_count(name: str) -> bool:
    return any(types_of(kind).get(name) is int for kind in (TrainConfig, EvaluationConfig, *LEARNERS.values()))
