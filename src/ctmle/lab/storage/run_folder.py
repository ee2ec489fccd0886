"""What is kept of a run: one folder with its settings, its log, its checkpoints and its trained parts."""

import json
import platform
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeGuard

from ctmle.config import TrainConfig, config_from_json
from ctmle.lab.storage.files import digest, read_json, write_json, write_whole
from ctmle.lab.storage.tensors import Arrays, read_about, read_tensors, write_tensors

VERSIONED = ("ctmle", "jax", "jaxlib", "equinox", "optax", "diffrax", "numpy")
Record = dict[str, Any]


@dataclass(frozen=True)
class Checkpoint:
    """A run as it was at one instant: the agent's arrays, and the records of the episodes that had ended."""

    path: Path
    arrays: Arrays
    records: list[Record]
    finished: bool
    warnings: tuple[str, ...] = ()
    """Newer checkpoints that were passed over, and why."""


@dataclass(frozen=True)
class RunFolder:
    """Paths inside a run folder, and safe reading and writing of what is there."""

    path: Path

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
        """From old to new."""
        return sorted((self.path / "checkpoints").glob(f"{'[0-9]' * 6}.safetensors"))

    def tensors(self, name: str) -> Path:
        """The file of one trained part: `policy`, `critic`, `model` or `data`."""
        return self.path / f"{name}.safetensors"

    @property
    def finished(self) -> bool:
        """Whether its log is complete and the newest checkpoint, if it still has any, is of the end by its own word."""
        try:
            complete = is_complete(self.read_config(), self.read_metrics())
            return complete and all(read_about(path).get("finished") is True for path in self.checkpoints[-1:])
        except (OSError, ValueError, KeyError, TypeError):
            return False

    @staticmethod
    def create(config: TrainConfig) -> "RunFolder":
        """A new folder with the settings in it. Never one that has something in it already."""
        if config.out is None:
            stem = f"runs/{config.environment}-{config.agent}-sigma{config.sigma:g}-seed{config.seed}"
            path, number = Path(stem), 1
            while path.exists():
                number += 1
                path = Path(f"{stem}-{number}")
        else:
            path = Path(config.out)
            _refuse_occupied(path)
        (path / "checkpoints").mkdir(parents=True, exist_ok=True)
        folder = RunFolder(path)
        write_json(folder.config_file, _described(config))
        folder.write_metrics([])
        return folder

    @staticmethod
    def open(path: str | Path) -> "RunFolder":
        folder = RunFolder(Path(path))
        if not folder.config_file.is_file():
            raise ValueError(f"{path} is not a run folder: it has no config.json (`ctmle train` makes run folders)")
        return folder

    def read_config(self) -> TrainConfig:
        content = read_json(self.config_file)
        content.pop("versions", None)
        try:
            return config_from_json(content)
        except (TypeError, AttributeError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise ValueError(f"{self.config_file} does not hold settings of this ctmle: {reason}") from error

    def write_metrics(self, records: list[Record]) -> None:
        """One JSON line per episode; never a number that is not one."""
        lines = [json.dumps(record, allow_nan=False) + "\n" for record in records]
        write_whole(self.metrics_file, "".join(lines).encode())

    def read_metrics(self) -> list[Record]:
        return [json.loads(line) for line in self.metrics_file.read_text().splitlines()]

    def save_checkpoint(self, arrays: Arrays, records: list[Record], *, finished: bool, keep: int) -> None:
        """Add a checkpoint; the `keep` newest stay."""
        old = self.checkpoints
        number = int(old[-1].stem) + 1 if old else 1
        about = {
            "run": digest(read_json(self.config_file)),
            "records": records,
            "finished": finished,
        }
        write_tensors(self.path / "checkpoints" / f"{number:06d}.safetensors", arrays, about)
        for path in self.checkpoints[:-keep]:
            path.unlink()

    def drop_checkpoints(self) -> None:
        """Of a finished run. The oldest first, so that the last one left says that it is finished."""
        for path in self.checkpoints:
            path.unlink()

    def read_checkpoint(self) -> Checkpoint:
        """The newest good checkpoint. Raises ValueError if there is none."""
        run, warnings = digest(read_json(self.config_file)), []
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
            raise ValueError(f"no good checkpoint in {self.path}: {warnings[0]}; start the run anew in another folder")
        if self.finished:
            raise ValueError(
                f"{self.path} is finished, and its checkpoints were dropped: its log and parts are what is left"
            )
        raise ValueError(f"{self.path} has no checkpoint yet: delete the folder and start the run anew")


def is_complete(config: TrainConfig, records: list[Record]) -> bool:
    """Whether a run with these records has nothing left to do."""
    stopped = config.stop_at_success and any(record["success"] for record in records)
    return stopped or (bool(records) and records[-1]["episode"] >= config.episodes)


def versions() -> dict[str, str]:
    """Of all that has a say in a run's numbers."""
    return {**{name: version(name) for name in VERSIONED}, "python": platform.python_version()}


def _are_records(records: Any) -> TypeGuard[list[Record]]:
    return isinstance(records, list) and all(isinstance(record, dict) for record in records)


def _refuse_occupied(path: Path) -> None:
    if not path.exists() or (path.is_dir() and all(_is_remnant(entry) for entry in path.iterdir())):
        return
    if (path / "config.json").is_file():
        raise ValueError(f"{path} holds a run already: continue it with `ctmle resume {path}`, or choose another --out")
    raise ValueError(f"{path} exists already and is not an empty folder: choose another --out")


def _is_remnant(entry: Path) -> bool:
    """What a run leaves that was killed before its settings were written: nothing that anybody misses."""
    if entry.name == "checkpoints":
        return entry.is_dir() and not any(entry.iterdir())
    return entry.name in ("lock", "config.json.part")


def _described(config: TrainConfig) -> dict[str, Any]:
    # Lists, not tuples: so that what is written equals what is read.
    return json.loads(json.dumps({**asdict(config), "versions": versions()}))
