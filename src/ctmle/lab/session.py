"""A run and its folder: begun, or taken up where it stopped. What `ctmle train`, `resume` and sweeps share."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctmle.config import TrainConfig
from ctmle.finite import NotFinite
from ctmle.lab.interrupt import Interrupt
from ctmle.lab.machine import use_compilation_cache, use_threads
from ctmle.lab.run import Run, Watcher
from ctmle.lab.storage.run_folder import Checkpoint, RunFolder

Record = dict[str, Any]


@dataclass(frozen=True)
class Session:
    """A run, its folder, and the checkpoint to go on from, if it has one."""

    job: Run
    folder: RunFolder
    checkpoint: Checkpoint | None = None

    @staticmethod
    def begin(config: TrainConfig) -> "Session":
        """In a new folder, made once the settings have proved to fit together. Raises ValueError if they do not."""
        use_threads(config.threads)
        job = Run(config)
        return Session(job, RunFolder.create(config))

    @staticmethod
    def take_up(path: str | Path) -> "Session":
        """In the folder of a run. Raises ValueError if there is none, or if nothing in it can be gone on from."""
        folder = RunFolder.open(path)
        config = folder.read_config()
        use_threads(config.threads)
        job = Run(config)
        return Session(job, folder, folder.read_checkpoint() if folder.checkpoints or folder.finished else None)

    def train(self, watchers: tuple[Watcher, ...] = (), interrupt: Interrupt | None = None) -> list[Record]:
        """Go on to the end. Raises Interrupted, and RuntimeError for a run that cannot go on, which says why."""
        use_compilation_cache()
        try:
            return self.job.train(self.folder, watchers, self.checkpoint, interrupt)
        except NotFinite as trouble:
            raise RuntimeError(
                f"{trouble}. The run stopped; its checkpoints in {self.folder.path} are from before the trouble"
            ) from trouble
        except OSError as error:
            raise RuntimeError(_what_to_do(self.folder, error)) from error


def _what_to_do(folder: RunFolder, error: OSError) -> str:
    """About a disk that is full, or a folder that is gone or not ours to write to."""
    reason = error.strerror or str(error)
    if not folder.config_file.exists():
        return f"the run folder {folder.path} was deleted while the run was going on ({reason}): start the run anew"
    return (
        f"cannot write to {folder.path} ({reason}); what was saved before is intact."
        f" Mend that, then go on with: ctmle resume {folder.path}"
    )
