"""Engines, which do the runs of a sweep: a number of workers, each with one run at a time."""

import os
from abc import ABC, abstractmethod
from pathlib import Path

import ctmle
from ctmle.lab.machine import cores
from ctmle.lab.sweeps.work import Report, Task

BEAT, SILENCE = 5.0, 60.0
"""Seconds between two signs of life of a worker, and seconds without one after which it counts as lost."""


class Engine(ABC):
    """Workers by number. The driver gives a run to each idle worker and waits for reports.

    A worker that is lost during a run, or that stops answering for `SILENCE` seconds, is replaced, and reported as a
    failure that a retry may fix.
    """

    name: str
    """Name on the command line."""
    threads: int
    """Threads of each run."""
    workers: int
    """Largest number of runs at a time; 0 if it is not known before the start."""

    @abstractmethod
    def start(self, folder: Path, runs: int) -> None:
        """Prepare for so many runs in the folder of the sweep."""

    @abstractmethod
    def idle(self) -> list[int]:
        """Return the workers that can be given a run now."""

    @abstractmethod
    def give(self, worker: int, task: Task) -> None:
        """Start a run on an idle worker."""

    @abstractmethod
    def wait(self, seconds: float) -> list[tuple[int, Report]]:
        """Block until a run ends or `seconds` elapse; return the finished reports with their workers."""

    @abstractmethod
    def stop(self, worker: int) -> None:
        """Ask a worker to stop at its next checkpoint. It still reports."""

    @abstractmethod
    def lose(self, worker: int) -> None:
        """End a worker at once. It does not report, and a new one takes its number."""

    @abstractmethod
    def close(self) -> None:
        """End all workers at once."""


def workers_for(workers: int | None, threads: int) -> int:
    """Return `workers`, or as many as this machine has cores for. Raises ValueError if there are too few cores."""
    there = cores()
    if threads * (workers or 1) > there:
        asked = f"--threads {threads}" if workers is None else f"--workers {workers} with --threads {threads}"
        raise ValueError(f"{asked} would need {threads * (workers or 1)} cores, and there are {there}: choose fewer")
    return workers or there // threads


def environment_of_worker(threads: int) -> dict[str, str]:
    """Return environment variables of a worker: it imports the same ctmle, and has so many threads."""
    places = [str(Path(ctmle.__file__).parent.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(places), "PJRT_NPROC": str(threads)}


def make_engine(name: str, *, address: str | None = None, workers: int | None = None, threads: int = 1) -> Engine:
    """Make the engine that the command line asks for. Raises ValueError if this machine cannot provide it.

    Ray is imported only if it is asked for.
    """
    if name == "ray":
        from ctmle.lab.sweeps.engines.ray import RayEngine

        return RayEngine(address, workers, threads)
    if address is not None:
        raise ValueError(f"--address {address} is for --engine ray: add that, or leave out the address")
    from ctmle.lab.sweeps.engines.local import LocalEngine

    return LocalEngine(workers, threads)
