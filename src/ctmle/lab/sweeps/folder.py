"""A sweep on the disk: a folder for each run, a table of results, and what was asked."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ctmle.lab.report.tables import save_csv
from ctmle.lab.storage.files import write_json
from ctmle.lab.storage.run_folder import RunFolder, versions
from ctmle.lab.sweeps.estimate import Pace, rough_seconds
from ctmle.lab.sweeps.plan import Plan, PlannedRun, content_of, settings_of
from ctmle.lab.sweeps.progress import duration
from ctmle.lab.sweeps.result import Result, result_of


@dataclass(frozen=True)
class Survey:
    """Which runs of a plan are there already. Runs go by the names of their folders, if they have one."""

    runs: tuple[PlannedRun, ...]
    finished: dict[str, Result]
    begun: frozenset[str]
    """Names of those that can go on from where they stopped."""

    @property
    def left(self) -> list[PlannedRun]:
        return [run for run in self.runs if run.name not in self.finished]

    def prospect(self, workers: int) -> str:
        """What there is to do, in a sentence; `workers` are 0 if nobody knows yet how many there will be."""
        left = len(self.left)
        words = f"{len(self.runs)} runs: {len(self.finished)} finished, {len(self.begun)} begun, {left} to do"
        if not left:
            return words
        pace = Pace(self.finished.values())
        seconds = pace.seconds_for(sum(rough_seconds(run.config) for run in self.left))
        how = "a rough guess" if not self.finished else "as long as those that are finished took"
        at_a_time = min(workers, left)
        where = f"on {at_a_time} {'worker' if at_a_time == 1 else 'workers'}" if workers else "one after another"
        early = not self.finished and any(run.config.stop_at_success for run in self.left)
        about = "at most" if early else "about"
        return f"{words}, {about} {duration(seconds / max(at_a_time, 1))} {where} ({how})"


@dataclass(frozen=True)
class SweepFolder:
    """Paths inside a sweep's folder, and what is known from there."""

    path: Path

    @property
    def runs(self) -> Path:
        return self.path / "runs"

    @property
    def results_file(self) -> Path:
        return self.path / "results.csv"

    @property
    def about_file(self) -> Path:
        return self.path / "sweep.json"

    def check_free(self) -> None:
        """Raises ValueError if there is something else than a sweep."""
        if self.about_file.is_file() or not self.path.exists():
            return
        remnants = ("lock", f"{self.about_file.name}.part")  # of a sweep that was killed at its very start
        if not self.path.is_dir() or any(entry.name not in remnants for entry in self.path.iterdir()):
            raise ValueError(f"{self.path} exists already and is not the folder of a sweep: choose another --out")

    def write_about(self, plan: Plan, **how: Any) -> None:
        write_json(self.about_file, {"asked": plan.asked, "runs": len(plan.runs), **how, "versions": versions()})

    def survey(self, plan: Plan) -> Survey:
        """Runs are recognised by the digest at the end of their folder's name, and by the settings inside."""
        there = {path.name.rpartition("-")[2]: path.name for path in self.runs.glob("*")}
        runs = tuple(replace(run, name=there.get(run.name.rpartition("-")[2], run.name)) for run in plan.runs)
        finished, begun = {}, set()
        for run in runs:
            folder = RunFolder(self.runs / run.name)
            if not folder.config_file.is_file():
                continue
            result = _result(run, folder)
            if result is None:
                begun.add(run.name)
            else:
                finished[run.name] = result
        return Survey(runs, finished, frozenset(begun))

    def write_results(self, results: Iterable[Result], varying: tuple[str, ...]) -> None:
        rows = [_row(result, varying) for result in results]
        if rows:
            save_csv(self.results_file, rows)


def _result(run: PlannedRun, folder: RunFolder) -> Result | None:
    """Of a run that is finished. If anything is odd about a folder, it is for a worker to say what."""
    try:
        if folder.finished and content_of(folder.read_config()) == content_of(run.config):
            return result_of(run.name, run.config, folder.read_metrics())
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def _row(result: Result, varying: tuple[str, ...]) -> dict[str, Any]:
    """A line of results.csv; what has an entry per tested episode is one field with blanks in between."""
    settings = settings_of(result.config)
    columns = ("environment", "agent", "sigma", "gap", *varying, "seed")
    return {
        "name": result.name,
        **{name: _cell(settings.get(name)) for name in columns},
        "status": result.status,
        "first_success": result.first_success,
        "looks_to_success": result.looks_to_success,
        "last_score": result.scores[-1] if result.scores else None,
        "episodes": _cell(result.episodes),
        "scores": _cell(result.scores),
        "score_errors": _cell(result.score_errors),
        "looks": _cell(result.looks),
        "seconds": round(result.seconds, 1),
        "reason": result.reason,
    }


def _cell(value: Any) -> Any:
    return " ".join(map(str, value)) if isinstance(value, tuple) else value
