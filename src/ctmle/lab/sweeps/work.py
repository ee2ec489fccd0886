"""The work of a worker: one run, entirely in its folder, from its beginning or from its checkpoint.

Tasks and reports travel to processes on this machine as one line of JSON each.
"""

import gc
import json
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import jax

from ctmle.lab.experiment import from_settings
from ctmle.lab.interrupt import Interrupt, Interrupted
from ctmle.lab.machine import versions
from ctmle.lab.report.results import Settings, summary_of
from ctmle.lab.session import Session
from ctmle.lab.storage.files import only_writer, own_folder
from ctmle.lab.storage.run_folder import RunFolder
from ctmle.lab.sweeps.plan import content_of, kind_of
from ctmle.training.failures import NotFinite

PATIENCE = 60.0
"""Seconds to wait for the process that worked on a run before: a lost node may take that long to be gone."""


@dataclass(frozen=True)
class Task:
    """A run for a worker. Its settings hold its folder and its number of threads."""

    name: str
    settings: Settings
    drop_checkpoints: bool = False
    """Delete the checkpoints of the finished run: they are most of its bytes, and nothing is left to continue."""
    accept_different: bool = False
    """Continue a run that was begun on another machine, with other versions or flags."""

    @staticmethod
    def at(folder: Path, name: str, settings: Settings, threads: int, **how: bool) -> "Task":
        """Place a run in a folder of its name."""
        return Task(name, {**settings, "out": str((folder / name).absolute()), "threads": threads}, **how)

    @property
    def folder(self) -> RunFolder:
        return RunFolder(Path(self.settings["out"]))

    def to_line(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_line(line: str) -> "Task":
        return Task(**json.loads(line))


@dataclass(frozen=True)
class Report:
    """The end of an attempt at a run."""

    ending: Literal["finished", "stopped", "failed"]
    records: tuple[dict[str, Any], ...] = ()
    """Entries that results need of the records of ended episodes (`summary_of`)."""
    reason: str = ""
    """Reason of a failure."""
    again: bool = False
    """True if a retry may succeed."""

    def to_line(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_line(line: str) -> "Report":
        content = json.loads(line)
        return Report(**{**content, "records": tuple(content["records"])})


class Worker:
    """Does one run after another. Compiled programs of the last run stay: the next is most often of the same kind."""

    def __init__(self) -> None:
        self.interrupt = Interrupt()
        self.kind: str | None = None

    def do(self, task: Task) -> Report:
        """Do a run, or continue it. Failures are reported, never raised."""
        try:
            self._forget_other_kinds(task)
            _train(task, self.interrupt)
            if task.drop_checkpoints:
                task.folder.drop_checkpoints()
            return Report("finished", _records(task.folder))
        except Interrupted:
            return Report("stopped")
        except Exception as error:
            traceback.print_exc()
            return Report("failed", _records_so_far(task.folder), _sentence(error), again=_may_succeed(error))

    def stop(self) -> None:
        """Stop the current run, or the next one, at its next checkpoint."""
        self.interrupt.ask()

    def alive(self) -> bool:
        """Answer, as a sign of life, while another thread works."""
        return True

    def versions(self) -> dict[str, str]:
        """Return the versions that this worker has, for a driver on another machine to compare."""
        return versions()

    def _forget_other_kinds(self, task: Task) -> None:
        """Clear the compiled programs of other settings, which would pile up over thousands of runs."""
        kind = kind_of(task.settings)
        if self.kind not in (None, kind):
            jax.clear_caches()
            gc.collect()
        self.kind = kind


def _train(task: Task, interrupt: Interrupt) -> None:
    folder = task.folder
    if not folder.config_file.exists():
        Session.begin(from_settings(task.settings)).train(interrupt=interrupt)
        return
    with only_writer(own_folder(folder.path), PATIENCE):
        pass  # whoever worked on it before is gone
    if content_of(folder.read_settings()) != content_of(task.settings):
        raise ValueError(f"{folder.path} holds a run with other settings: choose another --out, or delete it")
    if not folder.finished:
        accept = task.accept_different
        session = Session.resume(folder.path, task.settings["environment"], accept_different=accept)
        session.train(interrupt=interrupt)


def _records(folder: RunFolder) -> tuple[dict[str, Any], ...]:
    """Return what results need of the records. Raises ValueError if the log was changed."""
    return tuple(map(summary_of, folder.read_results()))


def _records_so_far(folder: RunFolder) -> tuple[dict[str, Any], ...]:
    try:
        return _records(folder)
    except (OSError, ValueError):  # a run can fail before it has a log
        return ()


def _may_succeed(error: Exception) -> bool:
    """Tell whether a retry may succeed: not after a wrong setting, nor after NaN or inf, which would come again."""
    return not isinstance(error, ValueError) and not isinstance(error.__cause__, NotFinite)


def _sentence(error: Exception) -> str:
    said = " ".join(str(error).split())
    return said if isinstance(error, ValueError | RuntimeError) and said else f"{type(error).__name__}: {said}"
