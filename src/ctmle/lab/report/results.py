"""Results of runs, from run folders or from workers: groups of them, numbers read from them, and tables."""

import csv
import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from jaxtyping import Float
from rich.box import SIMPLE
from rich.table import Table
from rich.text import Text

from ctmle.lab.settings_file import NOT_OPTIONS
from ctmle.lab.storage.files import write_whole
from ctmle.lab.storage.run_folder import RunFolder
from ctmle.settings import plain, typed

Settings = dict[str, Any]
"""Every option of an experiment by its name, with lists for tuples: as JSON holds them."""

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class RunResult:
    """Settings of a run, its end, and its test scores in the order of its episodes."""

    name: str
    """Name of its folder."""
    settings: Settings
    status: Literal["finished", "failed"]
    reason: str = ""
    """Why it failed, in one sentence; empty if it did not."""
    episodes: tuple[int, ...] = ()
    """Numbers of the tested episodes; the fields below have one entry for each."""
    scores: tuple[float, ...] = ()
    score_errors: tuple[float, ...] = ()
    looks: tuple[int, ...] = ()
    first_success: int | None = None
    """The first episode whose test was a success."""
    looks_to_success: int | None = None
    """Looks that the first policy that succeeded was trained on."""
    seconds_to_success: float | None = None
    """Seconds of experience that it was trained on."""
    seconds: float = 0.0
    """Wall clock of all its stages."""


NUMBER = int | float

LOGGED: dict[str, Any] = {"episode": int, "score": NUMBER, "score_se": NUMBER, "success": bool, "looks": int,
                          "experience_seconds": NUMBER, "experience_looks": int}  # fmt: skip
"""Entries of a record that comparisons read, and their types."""

SHOWN: dict[str, Any] = {**LOGGED, "success_share": NUMBER, "lowest_reward": NUMBER}
"""Entries of a record that are shown when a run ends, and their types."""

MOST_SHOWN = 4000
"""Records that tables and pictures show; of longer logs, every second, fourth, ..."""


def check_record(record: dict[str, Any], entries: dict[str, Any]) -> None:
    """Raise ValueError if a record lacks one of the entries, or has something else in its place."""
    seconds = {name: NUMBER for name in record if _is_clock(name)}
    optional = {"imagined_score": NUMBER} if "imagined_score" in record else {}
    for entry, kind in {**entries, **seconds, **optional}.items():
        if not isinstance(record.get(entry), kind) or isinstance(record[entry], bool) != (kind is bool):
            raise ValueError(f"the log of this run lacks {entry}, or has something else in its place")


def summary_of(record: dict[str, Any]) -> dict[str, Any]:
    """Return the entries of a record that comparisons read, and its seconds. Raises ValueError if one is missing."""
    check_record(record, LOGGED)
    return {**{entry: record[entry] for entry in LOGGED}, "seconds": seconds_of(record)}


def to_show(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the records to show: all of them, or if they are too many, evenly chosen ones and the last."""
    kept, last, stride = [], [], 1
    for number, record in enumerate(records):
        check_record(record, SHOWN)
        last = [record]
        if number % stride == 0:
            kept.append(record)
        if len(kept) > MOST_SHOWN:
            kept, stride = kept[::2], 2 * stride
    return kept if kept[-1:] == last else kept + last


def result_of(name: str, settings: Settings, records: Iterable[dict[str, Any]], reason: str = "") -> RunResult:
    """Summarise the records of a run; one with a reason has failed. Raises ValueError for records of something else."""
    try:
        records = [summary_of(record) for record in records]
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    if any(later["episode"] <= earlier["episode"] for earlier, later in pairwise(records)):
        raise ValueError(f"{name}: the episodes in the log of this run are not in their order")
    first = next((record for record in records if record["success"]), None)
    return RunResult(
        name=name,
        settings=settings,
        status="failed" if reason else "finished",
        reason=reason,
        episodes=tuple(record["episode"] for record in records),
        scores=tuple(record["score"] for record in records),
        score_errors=tuple(record["score_se"] for record in records),
        looks=tuple(record["looks"] for record in records),
        first_success=None if first is None else first["episode"],
        looks_to_success=None if first is None else first["experience_looks"],
        seconds_to_success=None if first is None else first["experience_seconds"],
        seconds=math.fsum(record["seconds"] for record in records),
    )


def seconds_of(record: dict[str, Any]) -> float:
    """Return the wall clock of all stages of an episode."""
    return math.fsum(value for name, value in record.items() if _is_clock(name))


def _is_clock(name: str) -> bool:
    """Tell whether an entry of a record is the wall clock of a stage, or of all."""
    return name.endswith("seconds") and name != "experience_seconds"


def read_result(path: str) -> RunResult:
    """Read the result of a run, finished or not, from its folder. Raises ValueError if no episode has ended yet."""
    folder = RunFolder.open(path)
    result = result_of(path, options_in(folder.read_settings()), folder.read_results())
    if not result.episodes:
        raise ValueError(f"{path} has finished no episode yet: continue with `{typed('resume', path)}`")
    return result


def options_in(content: dict[str, Any]) -> Settings:
    """Return the options in the content of a config.json, which also holds parts, system, machine and versions."""
    return {name: value for name, value in content.items() if name not in NOT_OPTIONS}


# Groups of runs


def finished(results: Iterable[RunResult]) -> list[RunResult]:
    """Return the finished runs. Failed ones say nothing about how good an agent is: they are counted and left out."""
    return [result for result in results if result.status == "finished"]


def grouped(results: Iterable[RunResult], key: Callable[[Settings], Key]) -> dict[Key, list[RunResult]]:
    """Group runs by a key of their settings, in the order in which the keys first appear."""
    groups: dict[Key, list[RunResult]] = defaultdict(list)
    for result in results:
        groups[key(result.settings)].append(result)
    return dict(groups)


def by_system(results: Iterable[RunResult]) -> dict[str, list[RunResult]]:
    """Group runs by their environment."""
    return grouped(results, lambda settings: settings["environment"])


def learning_curves(results: Sequence[RunResult]) -> Float[np.ndarray, "seeds episodes"]:
    """Return the test scores of runs that were tested at the same episodes."""
    return np.array([result.scores for result in results], float) if results else np.empty((0, 0))


def final_scores(results: Sequence[RunResult]) -> Float[np.ndarray, " seeds"]:
    """Return the last score of each run."""
    return np.array([result.scores[-1] for result in results], float)


def episodes_to_success(results: Sequence[RunResult]) -> Float[np.ndarray, " seeds"]:
    """Return each run's first successful episode; one more than its number of episodes if it never succeeds."""
    return np.array([result.first_success or result.settings["episodes"] + 1 for result in results], float)


def successes(results: Sequence[RunResult]) -> str:
    """Count the runs that succeeded, in words."""
    return f"{sum(result.first_success is not None for result in results)} of {len(results)}"


# Tables


def save_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write one line per row, columns in the order of the first row."""
    text = StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_whole(path, text.getvalue().encode())


def text_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Make a table of texts for the terminal; `markdown` makes it one for files."""
    table = Table(title=title, title_justify="left", box=SIMPLE)
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(plain(cell)) for cell in row))
    return table


def markdown(table: Table) -> str:
    """Write a table of texts, without its title, in Markdown."""
    columns = [(str(column.header), "---", *map(str, column.cells)) for column in table.columns]
    lines = zip(*columns, strict=True)
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in lines)
