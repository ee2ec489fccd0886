"""The file of `ctmle sweep`: tables [base], [grid], [[runs]] and [random] become a plan."""

import math
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

from ctmle.config import TrainConfig
from ctmle.lab.sweeps.draws import draws
from ctmle.lab.sweeps.plan import Plan
from ctmle.settings_file import apply_settings, flat, no_such, read_table, starting_point

TABLES = ("base", "grid", "runs", "random")
OF_THE_COMMAND = {"out": "--out", "config": "[base]", "threads": "--threads"}
"""Settings of a single run that a sweep gives to all of its runs, and where it has them from."""

MOST_RUNS = 1_000_000
"""More runs than this are a slip of the keyboard."""

Settings = dict[str, Any]


def read_plan(path: str | Path) -> Plan:
    """The runs that a file asks for, all checked. Raises ValueError with the file, the setting and what would do."""
    try:
        content = read_table(Path(path))
        return Plan.of(map(_config, _combinations(content)), {"file": Path(path).name, **content})
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _combinations(content: dict[str, Any]) -> Iterator[Settings]:
    """Settings of each run: the base, with every entry of [[runs]], at every point of the grid, in every sample."""
    for name in content:
        if name not in TABLES:
            raise ValueError(f"{no_such('table', name, TABLES)} (single settings go into [base])")
    base = _table(content.get("base", {}), "[base]")
    samples = draws(_table(content["random"], "[random]")) if "random" in content else [{}]
    grid = _axes(content.get("grid", {}), "[grid]")
    for number, entry in enumerate(_entries(content.get("runs", [{}])), start=1):
        where = f"[[runs]] number {number}"
        own = _table(entry, where)
        axes = {**grid, **_apart(grid, "[grid]", _axes(own.pop("grid", {}), f"the grid of {where}"), where)}
        _apart(own, where, axes, "a grid")
        _apart(samples[0], "[random]", {**own, **axes}, "a grid or [[runs]]")
        _check_size(len(samples) * math.prod(map(len, axes.values())))
        for point in product(*axes.values()):
            for sample in samples:
                yield {**base, **own, **dict(zip(axes, point, strict=True)), **sample}


def _config(settings: Settings) -> TrainConfig:
    for name, place in OF_THE_COMMAND.items():
        if name in settings:
            raise ValueError(f"'{name}' is not for single runs of a sweep: use {place}")
    return apply_settings(starting_point(settings), settings)


def _table(found: Any, where: str) -> Settings:
    if not isinstance(found, dict):
        raise ValueError(f"{where} must be a table of settings by name, not {found!r}")
    try:
        return flat(found)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def _entries(found: Any) -> list[Any]:
    if not isinstance(found, list) or not found:
        raise ValueError("runs must be one or more tables, each with the title [[runs]]")
    return found


def _axes(found: Any, where: str) -> dict[str, list[Any]]:
    """Values of each setting of a grid."""
    axes = _table(found, where)
    for name, values in axes.items():
        if not isinstance(values, list) or not values:
            raise ValueError(f"{where}: {name} must be a list of values, such as [0, 1, 2], not {values!r}")
    return axes


def _apart(these: Iterable[str], where: str, those: dict[str, Any], elsewhere: str) -> dict[str, Any]:
    """`those`, if they have nothing in common with these."""
    for name in set(these) & those.keys():
        raise ValueError(f"'{name}' varies both in {where} and in {elsewhere}: leave one of them out")
    return those


def _check_size(runs: int) -> None:
    if runs > MOST_RUNS:
        raise ValueError(f"makes {runs} runs, more than {MOST_RUNS}: leave out some values")
