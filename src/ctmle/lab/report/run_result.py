"""The outcome of one run in one line, wherever it is known from: a run folder, or the report of a worker."""

import math
from dataclasses import dataclass
from typing import Any, Literal

from ctmle.lab.storage.run_folder import RunFolder

Settings = dict[str, Any]
"""Every option of an experiment by its name, with lists for tuples: as JSON holds them."""


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
    seconds: float = 0.0
    """Wall clock of all its stages."""


def result_of(name: str, settings: Settings, records: list[dict[str, Any]], reason: str = "") -> RunResult:
    """Summarise the records of a run; one with a reason has failed."""
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
        looks_to_success=None if first is None else first["looks"],
        seconds=math.fsum(value for record in records for key, value in record.items() if key.endswith("seconds")),
    )


def read_result(path: str) -> RunResult:
    """Read the result of a run, finished or not, from its folder. Raises ValueError if no episode has ended yet."""
    folder = RunFolder.open(path)
    records = folder.read_metrics()
    if not records:
        raise ValueError(f"{path} has finished no episode yet: continue with `ctmle resume {path}`")
    return result_of(path, options_in(folder.read_settings()), records)


def options_in(content: dict[str, Any]) -> Settings:
    """Return the options in the content of a config.json, which also holds the exact parts, the system and versions."""
    return {name: value for name, value in content.items() if name not in ("parts", "system", "versions")}
