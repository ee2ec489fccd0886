"""A run on the disk: one folder with its settings, its log, its checkpoints and its trained parts."""

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from ctmle.lab.experiment import Experiment, from_json, to_json
from ctmle.lab.machine import versions
from ctmle.lab.storage.files import (
    Arrays,
    digest,
    is_remnant,
    new_folder,
    only_writer,
    own_folder,
    read_about,
    read_json,
    read_lines,
    read_tensors,
    write_json,
    write_tensors,
    write_whole,
)
from ctmle.settings import typed

Record = dict[str, Any]


@dataclass(frozen=True)
class Checkpoint:
    """A run as it was at one instant: the agent's arrays, and the records of the episodes that had ended."""

    path: Path
    arrays: Arrays
    records: list[Record]
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
    def learning_curve(self) -> Path:
        return self.path / "learning_curve.png"

    @property
    def checkpoints(self) -> list[Path]:
        """Checkpoint files from old to new."""
        found = own_folder(self.path / "checkpoints").glob("[0-9]*.safetensors")
        return sorted((path for path in found if path.stem.isdigit()), key=lambda path: int(path.stem))

    def tensors(self, name: str) -> Path:
        """Return the path of one trained part: `policy`, `critic`, `model` or `data`."""
        return self.path / f"{name}.safetensors"

    @property
    def finished(self) -> bool:
        """True if the log is complete and the newest checkpoint, if any, is marked finished."""
        try:
            settings = self.read_settings()
            complete = is_complete(settings["episodes"], settings["stop_at_success"], self.read_metrics())
            return complete and all(read_about(path).get("finished") is True for path in self.checkpoints[-1:])
        except (OSError, ValueError, KeyError, TypeError):
            return False

    @staticmethod
    def create(experiment: Experiment) -> "RunFolder":
        """Make a new folder with the settings in it; raise ValueError if there is something in it already."""
        content = {**to_json(experiment), "versions": versions()}
        out = experiment.files.out
        path = new_folder(f"runs/{default_name(experiment)}") if out is None else Path(out)
        _refuse_occupied(path)
        path.mkdir(parents=True, exist_ok=True)
        with only_writer(path):  # from here on nobody else can begin a run in this folder
            _refuse_occupied(path)
            (path / "checkpoints").mkdir(exist_ok=True)
            folder = RunFolder(path, digest(content))
            folder.write_metrics([])
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

    def write_metrics(self, records: list[Record]) -> None:
        """Write one JSON line per episode; NaN and inf are refused."""
        lines = [json.dumps(record, allow_nan=False) + "\n" for record in records]
        write_whole(self.metrics_file, "".join(lines).encode())

    def read_metrics(self) -> list[Record]:
        """Return the records of the log. Raises ValueError for a log that is damaged."""
        return list(read_lines(self.metrics_file))

    def read_results(self) -> list[Record]:
        """Return the records of the log, which must agree with the newest good checkpoint: scores may not be edited."""
        records, saved = self.read_metrics(), []
        for path in self.checkpoints[-1:]:
            with suppress(ValueError):  # a damaged checkpoint says nothing about the log
                saved = read_about(path).get("records")
        if _are_records(saved) and records[: len(saved)] != saved:
            raise ValueError(
                f"{self.metrics_file} was changed since its run wrote it: restore it from a copy of the run"
            )
        return records

    def save_checkpoint(self, arrays: Arrays, records: list[Record], *, finished: bool, keep: int) -> None:
        """Add a checkpoint; the `keep` newest stay."""
        old = self.checkpoints
        number = int(old[-1].stem) + 1 if old else 1
        about = {"run": self.identity, "records": records, "finished": finished}
        write_tensors(self.path / "checkpoints" / f"{number:06d}.safetensors", arrays, about)
        for path in self.checkpoints[:-keep]:
            path.unlink()

    def drop_checkpoints(self) -> None:
        """Delete the checkpoints of a finished run, the oldest first: the last one left says that it is finished."""
        for path in self.checkpoints:
            path.unlink()

    def read_checkpoint(self) -> Checkpoint:
        """Return the newest good checkpoint. Raises ValueError if there is none."""
        run, warnings = digest(self.read_settings()), []
        for path in reversed(self.checkpoints):
            try:
                arrays, about = read_tensors(path)
                if about.get("run") != run:
                    raise ValueError(f"{path} belongs to another run")
                records, finished = about.get("records"), about.get("finished")
                if not isinstance(finished, bool) or not _are_records(records):
                    raise ValueError(f"{path} does not say what its run had done")
                return Checkpoint(path, arrays, records, finished, tuple(warnings))
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


def is_complete(episodes: int, stop_at_success: bool, records: list[Record]) -> bool:
    """Tell whether a run with these records has nothing left to do."""
    stopped = stop_at_success and any(record["success"] for record in records)
    return stopped or (bool(records) and records[-1]["episode"] >= episodes)


def _are_records(records: Any) -> TypeGuard[list[Record]]:
    return isinstance(records, list) and all(isinstance(record, dict) for record in records)


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
