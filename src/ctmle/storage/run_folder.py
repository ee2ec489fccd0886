"""What is kept of a run: one folder with its settings, its log and its arrays."""

import json
import platform
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ctmle.config import TrainConfig, config_from_json
from ctmle.storage.tensors import write_whole

VERSIONED = ("ctmle", "jax", "jaxlib", "equinox", "optax", "diffrax", "numpy")


@dataclass(frozen=True)
class RunFolder:
    """Paths inside a run folder, and reading and writing of its JSON files."""

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

    def tensors(self, name: str) -> Path:
        """The file of one part: `policy`, `critic`, `model`, `data` or `state` (all that a resumed run needs)."""
        return self.path / f"{name}.safetensors"

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
            if path.exists() and (not path.is_dir() or any(path.iterdir())):
                raise FileExistsError(f"{path} exists already and is not an empty folder: choose another --out")
        path.mkdir(parents=True, exist_ok=True)
        folder = RunFolder(path)
        write_whole(folder.config_file, _json(_described(config)))
        folder.metrics_file.touch()
        return folder

    @staticmethod
    def open(path: str | Path) -> "RunFolder":
        folder = RunFolder(Path(path))
        if not folder.config_file.is_file():
            raise FileNotFoundError(
                f"{path} is not a run folder: it has no config.json (`ctmle train` makes run folders)"
            )
        return folder

    def read_config(self) -> TrainConfig:
        try:
            content = json.loads(self.config_file.read_text())
        except (OSError, ValueError) as error:
            raise ValueError(f"cannot read {self.config_file}: {error}") from error
        return config_from_json(content)

    def append_metrics(self, record: dict[str, Any]) -> None:
        with self.metrics_file.open("a") as file:
            file.write(json.dumps(record, allow_nan=False) + "\n")

    def read_metrics(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.metrics_file.read_text().splitlines()]


def _described(config: TrainConfig) -> dict[str, Any]:
    versions = {name: version(name) for name in VERSIONED}
    return {**asdict(config), "versions": {**versions, "python": platform.python_version()}}


def _json(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=2) + "\n").encode()
