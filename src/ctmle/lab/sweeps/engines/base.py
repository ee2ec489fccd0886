"""What does the runs of a sweep: a number of workers, each with one run at a time."""

from pathlib import Path
from typing import Protocol, runtime_checkable

import ctmle
from ctmle.lab.machine import cores
from ctmle.lab.sweeps.work import Report, Task


@runtime_checkable
class Engine(Protocol):
    """Workers by number. Whoever drives them gives a run to each that is idle, and waits for reports.

    A worker that is lost in mid-run is replaced, and reported as a failure that another attempt may mend.
    """

    @property
    def name(self) -> str:
        """As the command line has it."""
        ...

    @property
    def threads(self) -> int:
        """Of each run."""
        ...

    @property
    def workers(self) -> int:
        """Runs at a time, at most."""
        ...

    def start(self, folder: Path, runs: int) -> None:
        """Before the first of so many runs. `folder` is the sweep's."""
        ...

    def idle(self) -> list[int]:
        """Workers that can be given a run now."""
        ...

    def give(self, worker: int, task: Task) -> None: ...

    def wait(self, seconds: float) -> list[tuple[int, Report]]:
        """The workers whose runs have ended, as soon as one has; after so many seconds, nobody."""
        ...

    def stop(self) -> None:
        """Ask every worker to stop at its next checkpoint. Each still reports."""
        ...

    def close(self) -> None:
        """End all workers, at once."""
        ...


def workers_for(workers: int | None, threads: int) -> int:
    """How many workers this machine has cores for, or `workers` if it has enough. Raises ValueError if not."""
    there = cores()
    if threads * (workers or 1) > there:
        asked = f"--threads {threads}" if workers is None else f"--workers {workers} with --threads {threads}"
        raise ValueError(f"{asked} would need {threads * (workers or 1)} cores, and there are {there}: choose fewer")
    return workers or there // threads


def home_of_ctmle() -> str:
    """The folder that this very ctmle is imported from: workers must have the same."""
    return str(Path(ctmle.__file__).parent.parent)
