"""A sweep on the disk: a folder for each run, a table of results, and the request."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ctmle.lab.machine import versions
from ctmle.lab.report.progress import duration
from ctmle.lab.report.results import RunResult, result_of, save_csv
from ctmle.lab.storage.files import is_remnant, own_folder, write_json
from ctmle.lab.storage.run_folder import RunFolder
from ctmle.lab.sweeps.plan import Plan, PlannedRun, content_of


class Pace:
    """Estimates the time left from runs that have ended: the mean of their kind, or the mean of all kinds."""

    def __init__(self, left: Iterable[PlannedRun] = ()):
        self.left = Counter(run.kind for run in left)
        self.runs_left = self.left.total()
        self.all: list[float] = [0.0, 0]
        """Seconds of all runs that have ended, and their number."""
        self.known: dict[str, list[float]] = {}
        """The same for each kind that has runs left: a sweep may have a hundred thousand kinds."""

    def measured(self, kind: str, seconds: float) -> None:
        """Learn from a run that took so many seconds."""
        self.all[0] += seconds
        self.all[1] += 1
        if self.left[kind]:
            spent, ended = self.known.get(kind, [0.0, 0])
            self.known[kind] = [spent + seconds, ended + 1]

    def ended(self, kind: str) -> None:
        """Take one from the runs that are left."""
        self.runs_left -= 1
        self.left[kind] -= 1
        if not self.left[kind]:
            self.known.pop(kind, None)

    @property
    def seconds_left(self) -> float | None:
        """Seconds for all runs that are left, one after another; None until a run has ended."""
        spent, ended = self.all
        if not ended:
            return None
        alike = sum(self.left[kind] for kind in self.known)
        by_kind = sum(self.left[kind] * seconds / runs for kind, (seconds, runs) in self.known.items())
        return by_kind + (self.runs_left - alike) * spent / ended


@dataclass(frozen=True)
class Survey:
    """The runs of a plan, under the names of their folders if they have one, and which of them are finished."""

    runs: tuple[PlannedRun, ...]
    finished: dict[str, RunResult]
    begun: frozenset[str]
    """Names of unfinished runs that can be continued."""

    @property
    def left(self) -> list[PlannedRun]:
        return [run for run in self.runs if run.name not in self.finished]

    @property
    def pace(self) -> Pace:
        """The pace of the runs that are finished, to estimate the time of those left."""
        pace = Pace(self.left)
        for run in self.runs:
            if run.name in self.finished:
                pace.measured(run.kind, self.finished[run.name].seconds)
        return pace

    def prospect(self, workers: int) -> str:
        """Describe the work to do in a sentence; 0 workers if their number is not known yet."""
        left, seconds = len(self.left), self.pace.seconds_left
        words = f"{len(self.runs)} runs: {len(self.finished)} finished, {len(self.begun)} begun, {left} to do"
        if not left:
            return words
        if seconds is None:
            return f"{words}, time unknown until a run has ended"
        at_a_time = min(workers, left)
        where = f"on {at_a_time} {'worker' if at_a_time == 1 else 'workers'}" if workers else "one after another"
        return f"{words}, about {duration(seconds / max(at_a_time, 1))} {where} (at the pace of the finished ones)"


@dataclass(frozen=True)
class SweepFolder:
    """Paths inside a sweep's folder, and safe reading and writing of what is there."""

    path: Path

    @property
    def runs(self) -> Path:
        return own_folder(self.path / "runs")

    @property
    def results_file(self) -> Path:
        return self.path / "results.csv"

    @property
    def about_file(self) -> Path:
        return self.path / "sweep.json"

    def check_free(self) -> None:
        """Raise ValueError if the folder holds something else than a sweep."""
        if self.about_file.is_file() or not self.path.exists():
            return
        if not self.path.is_dir() or not all(map(is_remnant, self.path.iterdir())):
            raise ValueError(f"{self.path} exists already and is not the folder of a sweep: choose another --out")

    def write_about(self, plan: Plan, **how: Any) -> None:
        """Write the request, the engine's settings and the versions."""
        write_json(self.about_file, {"asked": plan.asked, "runs": len(plan.runs), **how, "versions": versions()})

    def survey(self, plan: Plan) -> Survey:
        """Find the runs of a plan by the digest at the end of their folder's name, and by the settings inside."""
        there = {path.name.rpartition("-")[2]: path.name for path in self.runs.glob("*")}
        runs = tuple(replace(run, name=there.get(run.name.rpartition("-")[2], run.name)) for run in plan.runs)
        finished, begun = {}, set()
        for run in runs:
            folder = RunFolder(own_folder(self.runs / run.name))
            if not folder.config_file.is_file():
                continue
            result = _result(run, folder)
            if result is None:
                begun.add(run.name)
            else:
                finished[run.name] = result
        return Survey(runs, finished, frozenset(begun))

    def write_results(self, results: Iterable[RunResult], varying: tuple[str, ...]) -> None:
        """Write the table with a row per run."""
        rows = [_row(result, varying) for result in results]
        if rows:
            save_csv(self.results_file, rows)


def _result(run: PlannedRun, folder: RunFolder) -> RunResult | None:
    """Return the result of a finished run, else None. A worker reports what is wrong with a damaged folder."""
    try:
        if folder.finished and content_of(folder.read_settings()) == content_of(run.settings):
            return result_of(run.name, run.settings, folder.read_results())
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def _row(result: RunResult, varying: tuple[str, ...]) -> dict[str, Any]:
    """Make a row of results.csv; lists, such as scores of episodes, are one field with blanks in between."""
    columns = ("environment", "agent", "sigma", "gap", *varying, "seed")
    row = {
        "name": result.name,
        **{name: result.settings.get(name) for name in columns},
        "status": result.status,
        "first_success": result.first_success,
        "looks_to_success": result.looks_to_success,
        "seconds_to_success": result.seconds_to_success,
        "last_score": result.scores[-1] if result.scores else None,
        "episodes": result.episodes,
        "scores": result.scores,
        "score_errors": result.score_errors,
        "looks": result.looks,
        "seconds": round(result.seconds, 1),
        "reason": result.reason,
    }
    return {name: " ".join(map(str, v)) if isinstance(v, tuple | list) else v for name, v in row.items()}
