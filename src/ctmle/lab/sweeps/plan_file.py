"""Files of `ctmle sweep`: tables [base], [grid], [[runs]] and [random] become a plan."""

import math
import random
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from ctmle.lab.experiment import Experiment, from_settings, start
from ctmle.lab.report.results import Settings
from ctmle.lab.settings_file import flat, read_table
from ctmle.lab.sweeps.plan import Plan
from ctmle.options import variant_options, walk
from ctmle.registry import AGENTS, no_such
from ctmle.settings import SettingError, alternatives

TABLES = ("base", "grid", "runs", "random")
OF_THE_COMMAND = {"out": "--out", "threads": "--threads"}
"""Settings of a single run that a sweep gives to all of its runs, and the option that sets them."""

MOST_RUNS = 1_000_000
"""More runs than this are a typing mistake."""


def read_plan(path: str | Path) -> Plan:
    """Read the runs that a file asks for and check them all. Raises ValueError with the file, the setting and a fix."""
    try:
        content = read_table(Path(path))
        return Plan.of(map(_experiment, _combinations(content)), {"file": Path(path).name, **content})
    except ValueError as error:
        shown = error.on_command_line if isinstance(error, SettingError) else error
        raise ValueError(f"{path}: {shown}") from error


def _combinations(content: dict[str, Any]) -> Iterator[Settings]:
    """List the settings of each run: the base, with every entry of [[runs]], at every grid point, in every sample."""
    for name in content:
        if name not in TABLES:
            raise ValueError(f"{no_such('table', name, TABLES)} (single settings go into [base])")
    base, grid = _table(content.get("base", {}), "[base]"), _axes(content.get("grid", {}), "[grid]")
    samples = draws(_named(content["random"], "[random]")) if "random" in content else [{}]
    entries = content.get("runs", [{}])
    if not isinstance(entries, list) or not entries:
        raise ValueError("runs must be one or more tables, each with the title [[runs]]")
    for number, entry in enumerate(entries, start=1):
        where = f"[[runs]] number {number}"
        own = dict(_named(entry, where))
        own_grid = _axes(own.pop("grid", {}), f"the grid of {where}")
        own, axes = _table(own, where), {**grid, **own_grid}
        _check_apart(grid, "[grid]", own_grid, where)
        _check_apart(own, where, axes, "a grid")
        _check_apart(samples[0], "[random]", {**own, **axes}, "a grid or [[runs]]")
        runs = len(samples) * math.prod(map(len, axes.values()))
        if runs > MOST_RUNS:
            raise ValueError(f"makes {runs} runs, more than {MOST_RUNS}: leave out some values")
        for point in product(*axes.values()):
            for sample in samples:
                yield {**base, **own, **dict(zip(axes, point, strict=True)), **sample}


def _experiment(settings: Settings) -> Experiment:
    for name, option in OF_THE_COMMAND.items():
        if name in settings:
            raise ValueError(f"'{name}' is not for single runs of a sweep: use {option}")
    return from_settings(settings)


def _named(found: Any, where: str) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise ValueError(f"{where} must be a table of settings by name, not {found!r}")
    return found


def _table(found: Any, where: str) -> Settings:
    try:
        return flat(_named(found, where))
    except ValueError as error:
        raise ValueError(str(error) if str(error).startswith(where) else f"{where}: {error}") from error


def _axes(found: Any, where: str) -> dict[str, list[Any]]:
    """Return the values of each setting of a grid."""
    axes = _table(found, where)
    for name, values in axes.items():
        if not isinstance(values, list) or not values:
            raise ValueError(f"{where}: {name} must be a list of values, such as [0, 1, 2], not {values!r}")
    return axes


def _check_apart(these: dict[str, Any], where: str, those: dict[str, Any], elsewhere: str) -> None:
    """Raise ValueError if two tables set the same name."""
    for name in these.keys() & those.keys():
        raise ValueError(f"'{name}' varies both in {where} and in {elsewhere}: leave one of them out")


# Random search

InverseCDF = Callable[[float], Any]


def draws(table: dict[str, Any]) -> list[dict[str, Any]]:
    """Draw the samples that a table [random] asks for: the same ones every time. Raises ValueError for a bad table.

    Every setting has its own random stream, so that more samples, or more settings, leave the first ones as they were.
    """
    table = dict(table)
    samples, seed = table.pop("samples", None), table.pop("seed", 0)
    for name, value, least in (("samples", samples, 1), ("seed", seed, 0)):
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MOST_RUNS:
            raise ValueError(f"[random] {name} must be a whole number from {least} to {MOST_RUNS}, not {value!r}")
    if not table:
        raise ValueError(
            "[random] needs a setting to draw, such as policy_rate = { low = 1e-4, high = 1e-2, log = true }"
        )
    columns = {name: (_inverse_cdf(name, law), random.Random(f"{seed} {name}")) for name, law in table.items()}
    return [{name: value(chance.random()) for name, (value, chance) in columns.items()} for _ in range(samples)]


def _inverse_cdf(name: str, law: Any) -> InverseCDF:
    """Return the inverse CDF of a choice, or of a number that is uniform, or log-uniform, between two others."""
    if isinstance(law, list) and law:
        return lambda share: law[int(share * len(law))]
    if not isinstance(law, dict) or not {"low", "high"} <= law.keys() <= {"low", "high", "log"}:
        raise ValueError(
            f"[random] {name} must be a list of choices or {{ low = ..., high = ..., log = true or false }}"
        )
    low, high, log = law["low"], law["high"], law.get("log", False)
    if not all(isinstance(bound, int | float) and math.isfinite(bound) for bound in (low, high)) or low >= high:
        raise ValueError(f"[random] {name} must have numbers low < high, not {low!r} and {high!r}")
    if not isinstance(log, bool):
        raise ValueError(f"[random] {name} log must be true or false, not {log!r}")
    if log and low <= 0:
        raise ValueError(f"[random] {name} has log = true, so low must be positive, not {low!r}")
    whole = name in _whole_options()
    end = high + 1 if whole else high  # a whole number n stands for the interval from n to n + 1

    def at(share: float) -> float | int:
        value = float(low * (end / low) ** share if log else low + share * (end - low))
        return min(int(value), int(high)) if whole else value

    return at


@cache
def _whole_options() -> frozenset[str]:
    """Return the names of the options, of any registered agent, that are whole numbers."""
    found: set[str] = set()
    for agent in AGENTS.names:
        experiment = start(agent=agent)
        for option in (*walk(experiment), *variant_options(experiment).values()):
            kinds = [kind for outer in alternatives(option.hint) for kind in alternatives(outer)]
            if int in kinds and float not in kinds:
                found.add(option.name)
    return frozenset(found)
