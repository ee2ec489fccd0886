"""Fail each operation of the storage layer, one after another: what was saved is whole, and the rest can be done again.

    python tests/faults/io_errors.py        (`make faults`)

A run's life on the disk, without its training: it begins, and saves parts, log and checkpoint three times.
"""

import errno
import sys
import tempfile
from itertools import count
from pathlib import Path

import numpy as np
from strikes import striking  # pyright: ignore[reportMissingImports]

from ctmle.lab.experiment import Experiment, from_settings
from ctmle.lab.storage.files import PART, only_writer, read_tensors, write_tensors
from ctmle.lab.storage.run_folder import RunFolder

ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EMFILE)
EPISODES = 3


def experiment(folder: Path) -> Experiment:
    return from_settings({"episodes": EPISODES, "out": str(folder / "run")})


def live(folder: Path) -> None:
    """Begin the run or continue it, to its end."""
    path = folder / "run"
    there = RunFolder.open(path) if (path / "config.json").exists() else RunFolder.create(experiment(folder))
    done = there.read_checkpoint().records if there.checkpoints else []
    with only_writer(path):
        there.write_metrics(done)
        for episode in range(len(done) + 1, EPISODES + 1):
            done = [*done, {"episode": episode, "score": episode / 10, "success": False}]
            write_tensors(there.tensors("policy"), {"w": np.full(50, episode, np.float32)})
            there.write_metrics(done)
            there.save_checkpoint({"w": np.full(50, episode, np.float32)}, done, finished=episode == EPISODES, keep=2)


def is_whole(folder: Path, *, ended: bool) -> bool:
    """Tell whether everything in the folder can be read and agrees, and nothing half-written is left in the end."""
    run = RunFolder.open(folder / "run")
    records, saved = run.read_metrics(), run.read_checkpoint().records if run.checkpoints else []
    parts = [read_tensors(path)[0]["w"] for path in [run.tensors("policy")] if path.exists()]
    agree = records[: len(saved)] == saved and all(len(set(part.tolist())) == 1 for part in parts)
    left = list((folder / "run").rglob(f"*{PART}"))
    return agree and (not ended or (len(records) == EPISODES and run.finished and not left))


def attempt(number: int, error: int) -> bool | None:
    """Fail operation `number`, then do the rest. None if there are fewer operations."""
    operations = count(1)

    def strike(operation: str, path: str) -> None:
        if next(operations) == number:
            raise OSError(error, "injected", path)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        struck = False
        try:
            with striking(folder, strike):
                live(folder)
        except OSError:
            struck = True
        if not struck and next(operations) <= number:
            return None
        if (folder / "run" / "config.json").exists() and not is_whole(folder, ended=False):
            return False
        live(folder)
        return is_whole(folder, ended=True)


def main(every: int = 1) -> int:
    tried, failed = 0, []
    for error in ERRORS:
        for number in count(1, every):
            survived = attempt(number, error)
            if survived is None:
                break
            tried += 1
            if not survived:
                failed.append(f"{errno.errorcode[error]} at operation {number}")
    for line in failed:
        print(f"  {line}")
    print(f"I/O errors: tried {tried}, survived {tried - len(failed)}, failed {len(failed)}")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main() > 0)
