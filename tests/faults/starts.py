"""Begin runs at the same instant, in one folder and under one default name: no two of them may share a folder.

python tests/faults/table.py --only starts        (`make faults` runs all classes)
"""

import os
import tempfile
import time
from pathlib import Path

from tally import Tally  # pyright: ignore[reportMissingImports]

from ctmle.lab.experiment import Experiment, from_settings
from ctmle.lab.storage.run_folder import RunFolder

REFUSED, FREE = 0, 1


def begin(experiment: Experiment, at: float) -> int:
    """Begin a run at an instant. Returns whether it got a folder, or was refused in a sentence."""
    while time.monotonic() < at:
        pass
    try:
        RunFolder.create(experiment)
    except ValueError:
        return REFUSED
    return FREE


def together(experiment: Experiment, count: int) -> int:
    """Begin as many runs at once, each in a process of its own. Returns how many got a folder."""
    at, children = time.monotonic() + 0.05, []
    for _ in range(count):
        child = os.fork()
        if child == 0:
            os._exit(begin(experiment, at))
        children.append(child)
    return sum(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


def attack(rounds: int = 10, together_: int = 10) -> Tally:
    """Begin runs at once, round after round."""
    tried, shared = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for number in range(rounds):
            named = from_settings({"out": f"named-{number}"})
            shared += abs(together(named, together_) - 1)
            got = together(from_settings({"seed": number}), together_)
            shared += abs(len(list(Path("runs").glob(f"*seed{number}*"))) - got) + (together_ - got)
            tried += 2 * together_
        os.chdir("/")
    return Tally(tried, ["a shared folder"] * shared)
