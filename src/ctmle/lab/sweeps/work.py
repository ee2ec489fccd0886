"""What a worker does: one run, wholly in its folder, from its start or from its checkpoint.

Tasks and reports travel as one line of JSON, to a process of this machine or of a cluster.
"""

import gc
import json
import traceback
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ctmle.config import TrainConfig, config_from_json
from ctmle.finite import NotFinite
from ctmle.lab.interrupt import Interrupt, Interrupted
from ctmle.lab.storage.files import wait_for_writer
from ctmle.lab.storage.run_folder import RunFolder
from ctmle.lab.sweeps.plan import content_of, kind_of

PATIENCE = 60.0
"""Seconds to wait for whoever worked on a run before: a lost node may take as long to be really gone."""


@dataclass(frozen=True)
class Task:
    """A run that a worker is given. Its config says where its folder is and how many threads it has."""

    name: str
    config: TrainConfig
    drop_checkpoints: bool = False
    """Once the run is finished: they are most of its bytes, and nothing is left to go on with."""

    @staticmethod
    def at(folder: Path, name: str, config: TrainConfig, threads: int, *, drop_checkpoints: bool = False) -> "Task":
        config = replace(config, out=str((folder / name).absolute()), threads=threads)
        return Task(name, config, drop_checkpoints)

    @property
    def folder(self) -> RunFolder:
        return RunFolder(Path(self.config.out or ""))

    def to_line(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_line(line: str) -> "Task":
        content = json.loads(line)
        return Task(**{**content, "config": config_from_json(content["config"])})


@dataclass(frozen=True)
class Report:
    """How an attempt at a run ended."""

    ending: Literal["finished", "stopped", "failed"]
    records: tuple[dict[str, Any], ...] = ()
    """Of the episodes that ended, as the run's log has them."""
    reason: str = ""
    """Of a failure."""
    again: bool = False
    """Whether another attempt at what failed may end otherwise."""

    def to_line(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_line(line: str) -> "Report":
        content = json.loads(line)
        return Report(**{**content, "records": tuple(content["records"])})


class Worker:
    """Does run after run. Compiled programs of the last run stay, since the next is most often of its kind."""

    def __init__(self) -> None:
        self.interrupt = Interrupt()
        self.kind: str | None = None

    def do(self, task: Task) -> Report:
        """Whatever goes wrong in a run is told, not raised."""
        try:
            self._forget_other_kinds(task)
            _go_on(task, self.interrupt)
            if task.drop_checkpoints:
                task.folder.drop_checkpoints()
            return Report("finished", _records(task.folder))
        except Interrupted:
            return Report("stopped")
        except Exception as error:
            traceback.print_exc()
            return Report("failed", _records(task.folder), _sentence(error), again=_may_help(error))

    def _forget_other_kinds(self, task: Task) -> None:
        """What was compiled for other settings would pile up in a worker that does thousands of runs."""
        kind = kind_of(task.config)
        if self.kind not in (None, kind):
            import jax

            jax.clear_caches()
            gc.collect()
        self.kind = kind


def _go_on(task: Task, interrupt: Interrupt) -> None:
    from ctmle.lab.session import Session

    folder = task.folder
    if not folder.config_file.exists():
        Session.begin(task.config).train(interrupt=interrupt)
        return
    wait_for_writer(folder.path, PATIENCE)
    if content_of(folder.read_config()) != content_of(task.config):
        raise ValueError(f"{folder.path} holds a run with other settings: choose another --out, or delete it")
    if not folder.finished:
        Session.take_up(folder.path).train(interrupt=interrupt)


def _records(folder: RunFolder) -> tuple[dict[str, Any], ...]:
    try:
        return tuple(folder.read_metrics())
    except (OSError, ValueError):  # a run that failed may not have come as far as a log
        return ()


def _may_help(error: Exception) -> bool:
    """A mistake stays one, and a run whose numbers overflowed would compute the same numbers again."""
    return not isinstance(error, ValueError) and not isinstance(error.__cause__, NotFinite)


def _sentence(error: Exception) -> str:
    said = " ".join(str(error).split())
    return said if isinstance(error, ValueError | RuntimeError) and said else f"{type(error).__name__}: {said}"
