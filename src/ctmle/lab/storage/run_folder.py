"""A run on the disk: one folder with its settings, its log, its checkpoints and its trained parts."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ctmle.lab.experiment import Experiment, from_json, to_json
from ctmle.lab.machine import versions
from ctmle.lab.storage.files import (
    digest,
    is_remnant,
    new_folder,
    only_writer,
    own_folder,
    read_json,
    write_json,
    write_whole,
)
from ctmle.lab.storage.log import Log, Mark, Record, read_records
from ctmle.lab.storage.tensors import Arrays, Layout, read_about, read_tensors, write_tensors
from ctmle.settings import typed

Fits = Callable[[Path, Layout], None]
"""Raises ValueError if the arrays that a file declares are not those of a run."""


@dataclass(frozen=True)
class Checkpoint:
    """A run as it was at one instant: the agent's arrays, and how far its log was."""

    path: Path
    arrays: Arrays
    log: Mark
    finished: bool
    warnings: tuple[str, ...] = ()
    """Newer checkpoints that could not be read, and why."""


@dataclass(frozen=True)
class RunFolder:
    """Paths inside a run folder, and safe reading and writing of what is there."""

    path: Path
    identity: str = ""
    """Digest of the settings that its run began with, as they are in memory."""

    @property
    def config_file(self) -> Path:
        return self.path / "config.json"

    @property
    def metrics_file(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def finished_file(self) -> Path:
        """The end of a finished run, kept in place of checkpoints that were dropped."""
        return self.path / "finished.json"

    @property
    def learning_curve(self) -> Path:
        return self.path / "learning_curve.png"

    @property
    def checkpoints(self) -> list[Path]:
        """Checkpoint files from old to new."""
        found = own_folder(self.path / "checkpoints").glob("[0-9]*.safetensors")
        return sorted(
            (path for path in found if path.stem.isdecimal() and path.stem.isascii()), key=lambda path: int(path.stem)
        )

    def tensors(self, name: str) -> Path:
        """Return the path of one trained part: `policy`, `critic`, `model` or `data`."""
        return self.path / f"{name}.safetensors"

    @property
    def finished(self) -> bool:
        """True if the newest checkpoint, or what is left of dropped ones, says so, and the log is as long.

        Without either, as after checkpoints were deleted by hand, the log alone must be complete.
        """
        try:
            settings = self.read_settings()
            if not self.finished_file.exists() and not self.checkpoints:
                return _is_complete(settings, self.read_metrics())
            dropped = self.finished_file.exists()
            end = read_json(self.finished_file) if dropped else read_about(self.checkpoints[-1])
            as_long = self.metrics_file.stat().st_size == Mark.from_json(end.get("log")).size
            return as_long and end.get("finished") is True and end.get("run") == digest(settings)
        except (OSError, ValueError, KeyError, TypeError):
            return False

    @staticmethod
    def create(experiment: Experiment, machine: dict[str, Any] | None = None) -> "RunFolder":
        """Make a new folder with the settings in it, and what of the `machine` has a say in the run's numbers.

        Raises ValueError if there is something in the folder already.
        """
        content = {**to_json(experiment), "versions": versions(), "machine": machine or {}}
        out = experiment.files.out
        path = new_folder(f"runs/{default_name(experiment)}") if out is None else Path(out)
        _refuse_occupied(path)
        path.mkdir(parents=True, exist_ok=True)
        with only_writer(path):  # from here on nobody else can begin a run in this folder
            _refuse_occupied(path)
            (path / "checkpoints").mkdir(exist_ok=True)
            folder = RunFolder(path, digest(content))
            write_whole(folder.metrics_file, b"")
            write_json(folder.config_file, content)  # the last: a folder without it holds no run
        return folder

    @staticmethod
    def open(path: str | Path) -> "RunFolder":
        folder = RunFolder(Path(path))
        if not folder.config_file.is_file():
            raise ValueError(f"{path} is not a run folder: it has no config.json (`ctmle train` makes run folders)")
        return RunFolder(folder.path, digest(folder.read_settings()))

    def read_settings(self) -> dict[str, Any]:
        """Return what config.json holds: options by name, parts, system and versions."""
        return read_json(self.config_file)

    def read_experiment(self, environment: str | None = None, *, trust: bool = False) -> Experiment:
        """Rebuild the run's experiment. Code from outside ctmle is imported only if it is named again or trusted."""
        content = self.read_settings()
        try:
            return from_json(content, environment, trust=trust)
        except (TypeError, AttributeError, KeyError, ValueError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ValueError(f"{self.config_file}: {reason}") from error

    def continue_log(self, mark: Mark = Mark()) -> Log:
        """Return the log, to append to from `mark` on. Raises ValueError if what is before was changed."""
        return Log(self.metrics_file, mark)

    def write_log(self, records: list[Record]) -> Log:
        """Write the log anew, and return it to append to."""
        write_whole(self.metrics_file, b"")
        log = Log(self.metrics_file)
        log.append(*records)
        return log

    def read_metrics(self) -> list[Record]:
        """Return the records of the log. Raises ValueError for a log that is damaged."""
        return list(read_records(self.metrics_file))

    def read_results(self) -> Iterator[Record]:
        """List the records of the log that the newest good checkpoint vouches for: scores may not be edited."""
        run, mark = digest(self.read_settings()), None
        for path in (self.finished_file, *reversed(self.checkpoints)):
            with suppress(ValueError):  # a damaged checkpoint says nothing about the log
                end = read_json(path) if path == self.finished_file else read_about(path)
                if end.get("run") == run:
                    mark = Mark.from_json(end.get("log"))
                    break
        return read_records(self.metrics_file, mark)

    def save_checkpoint(self, arrays: Arrays, log: Mark, *, finished: bool, keep: int) -> None:
        """Add a checkpoint; the `keep` newest stay."""
        old = self.checkpoints
        number = int(old[-1].stem) + 1 if old else 1
        about = {"run": self.identity, "log": log.to_json(), "finished": finished}
        write_tensors(self.path / "checkpoints" / f"{number:06d}.safetensors", arrays, about)
        for path in self.checkpoints[:-keep]:
            path.unlink()

    def drop_checkpoints(self) -> None:
        """Delete the checkpoints of a finished run; that it is finished, and its log's mark, are kept."""
        found = self.checkpoints
        if found:
            write_json(self.finished_file, read_about(found[-1]))
        for path in found:
            path.unlink()

    def read_checkpoint(self, fits: Fits | None = None) -> Checkpoint:
        """Return the newest good checkpoint. Raises ValueError if there is none.

        With `fits`, what a checkpoint declares is compared with what its run would have before memory is taken for it.
        """
        run, warnings = digest(self.read_settings()), []
        for path in reversed(self.checkpoints):
            try:
                about = read_about(path)
                if about.get("run") != run:
                    raise ValueError(f"{path} belongs to another run")
                arrays, _ = read_tensors(path, None if fits is None else partial(fits, path))
                finished, log = about.get("finished") is True, Mark.from_json(about.get("log"))
                return Checkpoint(path, arrays, log, finished, tuple(warnings))
            except ValueError as error:
                warnings.append(str(error))
        if warnings:
            raise ValueError(f"no good checkpoint in {self.path}: {warnings[0]}; start the run again in another folder")
        if self.finished:
            raise ValueError(
                f"{self.path} is finished, and its checkpoints were dropped: its log and parts are what is left"
            )
        raise ValueError(f"{self.path} has no checkpoint yet: delete the folder and start the run again")


def default_name(experiment: Experiment) -> str:
    """Name a run's folder after its environment, agent, noise and seed."""
    sigma = getattr(experiment.env, "sigma", None)
    noise = "" if sigma is None else f"-sigma{sigma:g}"
    return f"{short_name(experiment.environment)}-{experiment.algorithm}{noise}-seed{experiment.training.seed}"


def short_name(environment: str) -> str:
    """Return a name that can be part of a file's name: `tank.py:Tank` becomes `tank`."""
    place, _, kind = environment.rpartition(":")
    return kind.lower() if place else kind


def _is_complete(settings: dict[str, Any], records: list[Record]) -> bool:
    """Tell whether a run with these records has nothing left to do."""
    stopped = settings["stop_at_success"] and any(record["success"] for record in records)
    return stopped or (bool(records) and records[-1]["episode"] >= settings["episodes"])


def _refuse_occupied(path: Path) -> None:
    if not path.exists() or (path.is_dir() and all(_is_remnant(entry) for entry in path.iterdir())):
        return
    if (path / "config.json").is_file():
        again = typed("resume", path)
        raise ValueError(f"{path} holds a run already: continue it with `{again}`, or choose another --out")
    raise ValueError(f"{path} exists already and is not an empty folder: choose another --out")


def _is_remnant(entry: Path) -> bool:
    """Tell whether an entry is left over from a run that was killed before its settings were written."""
    if entry.name == "checkpoints":
        return not entry.is_symlink() and entry.is_dir() and not any(entry.iterdir())
    return is_remnant(entry) or (entry.name == "metrics.jsonl" and entry.lstat().st_size == 0)
