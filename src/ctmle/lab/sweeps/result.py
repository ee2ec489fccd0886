"""What a sweep keeps of each of its runs: one line, whatever the run itself has on the disk."""

import math
from dataclasses import dataclass
from typing import Any, Literal

from ctmle.config import TrainConfig
from ctmle.lab.storage.run_folder import RunFolder


@dataclass(frozen=True)
class Result:
    """One run: what was asked, how it ended, and the scores of its tests, in the order of its episodes."""

    name: str
    """Of its folder: what varies in the sweep, and a digest of the whole config."""
    config: TrainConfig
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
    """Wall clock of all its phases."""


def result_of(name: str, config: TrainConfig, records: list[dict[str, Any]], reason: str = "") -> Result:
    """What the records of a run come to."""
    first = next((record for record in records if record["success"]), None)
    return Result(
        name=name,
        config=config,
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


def read_result(path: str) -> Result:
    """What the folder of a run says, finished or not. Raises ValueError if that is nothing yet."""
    folder = RunFolder.open(path)
    records = folder.read_metrics()
    if not records:
        raise ValueError(f"{path} has finished no episode yet: go on with `ctmle resume {path}`")
    return result_of(path, folder.read_config(), records)
