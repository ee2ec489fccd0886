"""Fail each operation of the storage layer, one after another: what was saved is whole, and the rest can be done again.

    python tests/faults/table.py --only io_errors        (`make faults` runs all classes)

A run's life on the disk, without its training: it begins, and saves parts, log and checkpoint three times.
"""

import errno
import tempfile
from itertools import count
from pathlib import Path

import numpy as np
from strikes import striking  # pyright: ignore[reportMissingImports]
from tally import Tally  # pyright: ignore[reportMissingImports]

from ctmle.lab.experiment import Experiment, from_settings
from ctmle.lab.storage.files import PART, only_writer
from ctmle.lab.storage.log import Mark
from ctmle.lab.storage.run_folder import RunFolder
from ctmle.lab.storage.tensors import read_tensors, write_tensors

ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EMFILE)
EPISODES = 3


def experiment(folder: Path) -> Experiment:
    return from_settings({"episodes": EPISODES, "out": str(folder / "run")})


def live(folder: Path) -> None:
    """Begin the run or continue it, to its end."""
    path = folder / "run"
    there = RunFolder.open(path) if (path / "config.json").exists() else RunFolder.create(experiment(folder))
    done = there.read_checkpoint().log if there.checkpoints else Mark()
    with only_writer(path):
        log = there.continue_log(done)
        for episode in range(done.records + 1, EPISODES + 1):
            write_tensors(there.tensors("policy"), {"w": np.full(50, episode, np.float32)})
            log.append({"episode": episode, "score": episode / 10, "success": False})
            weights = {"w": np.full(50, episode, np.float32)}
            there.save_checkpoint(weights, log.mark, finished=episode == EPISODES, keep=2)


def is_whole(folder: Path, *, ended: bool) -> bool:
    """Tell whether everything in the folder can be read and agrees, and nothing half-written is left in the end."""
    run = RunFolder.open(folder / "run")
    records, saved = list(run.read_results()), run.read_checkpoint().log if run.checkpoints else Mark()
    parts = [read_tensors(path)[0]["w"] for path in [run.tensors("policy")] if path.exists()]
    agree = len(records) >= saved.records and all(len(set(part.tolist())) == 1 for part in parts)
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


def attack(every: int = 1) -> Tally:
    """Fail every operation, or one in so many, with each of the errors."""
    tally = Tally()
    for error in ERRORS:
        for number in count(1, every):
            survived = attempt(number, error)
            if survived is None:
                break
            tally.add(survived, f"{errno.errorcode[error]} at operation {number}")
    return tally
