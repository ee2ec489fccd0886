"""A sweep of a thousand tiny runs on workers that live through all of it: bounded memory and file descriptors.

python tests/faults/table.py --only many_runs        (`make faults` runs all classes)
"""

import os
import tempfile
from pathlib import Path

from mutants import experiment  # pyright: ignore[reportMissingImports]
from tally import Tally  # pyright: ignore[reportMissingImports]

from ctmle.lab.report.progress import Standing, SweepWatcher
from ctmle.lab.report.results import RunResult
from ctmle.lab.sweeps import Plan, run_sweep
from ctmle.lab.sweeps.engines.local import LocalEngine

MOST_GROWTH, MOST_DESCRIPTORS = 100_000_000, 5
"""Bytes and descriptors that a process may have more at the end than after its first runs."""


class Meter(SweepWatcher):
    """Measures the driver and its workers after every run."""

    def __init__(self, engine: LocalEngine, settled: int):
        self.engine, self.settled, self.ended_runs = engine, settled, 0
        self.first: dict[str, tuple[int, int]] = {}
        self.last: dict[str, tuple[int, int]] = {}

    def begins(self, prospect: str) -> None: ...

    def see(self, standing: Standing) -> None: ...

    def failed(self, name: str, reason: str) -> None: ...

    def ended(self, result: RunResult) -> None:
        self.ended_runs += 1
        if self.ended_runs == self.settled:
            self.first = self.measure()
        elif self.ended_runs > self.settled:
            self.last = self.measure()

    def measure(self) -> dict[str, tuple[int, int]]:
        """Return the bytes and the file descriptors of every process."""
        workers = {f"worker {number}": process.pid for number, process in self.engine.processes.items()}
        found = {}
        for name, pid in {"driver": os.getpid(), **workers}.items():
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            found[name] = (pages * os.sysconf("SC_PAGESIZE"), len(os.listdir(f"/proc/{pid}/fd")))
        return found


def attack(runs: int = 1000, workers: int = 2) -> Tally:
    """Do so many runs that differ in their seed."""
    engine = LocalEngine(workers)
    meter, tally = Meter(engine, settled=max(2 * workers, runs // 10)), Tally()
    plan = Plan.of(experiment(seed=seed, episodes=1, horizon=3.5, test_trajectories=1) for seed in range(runs))
    with tempfile.TemporaryDirectory() as folder:
        for result in run_sweep(plan, Path(folder) / "sweep", engine, drop_checkpoints=True, watchers=(meter,)):
            tally.add(result.status == "finished", f"{result.name}: {result.reason}")
    grown = {
        name: tuple(b - a for a, b in zip(meter.first[name], last, strict=True)) for name, last in meter.last.items()
    }
    tally.failures += [f"{name} grew by {bytes_} bytes, {descriptors} descriptors" for name, (bytes_, descriptors) in
                       grown.items() if bytes_ > MOST_GROWTH or descriptors > MOST_DESCRIPTORS]  # fmt: skip
    tally.note = ", ".join(f"{name} +{bytes_ / 1e6:.0f} MB +{files} files" for name, (bytes_, files) in grown.items())
    return tally
