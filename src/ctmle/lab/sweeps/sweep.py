"""The driver of a sweep: gives runs to workers, takes their reports, and keeps one line of each."""

import math
import time
from collections import Counter
from pathlib import Path

from ctmle.lab.interrupt import Interrupt, Interrupted
from ctmle.lab.storage.files import only_writer
from ctmle.lab.sweeps.engines.base import Engine
from ctmle.lab.sweeps.estimate import Pace, rough_seconds
from ctmle.lab.sweeps.folder import SweepFolder
from ctmle.lab.sweeps.plan import Plan, PlannedRun
from ctmle.lab.sweeps.progress import Standing, SweepWatcher, Unwatched
from ctmle.lab.sweeps.result import Result, result_of
from ctmle.lab.sweeps.waiting import Waiting
from ctmle.lab.sweeps.work import Report, Task

HEARTBEAT = 0.5
"""Seconds between two looks at whether somebody asks to stop."""

TABLE_EVERY, TABLE_SHARE = 1.0, 0.02
"""Seconds between two writings of the table of results, and the share of all time that they may take."""


def run_sweep(
    plan: Plan,
    out: Path,
    engine: Engine,
    *,
    retries: int = 2,
    drop_checkpoints: bool = False,
    watcher: SweepWatcher | None = None,
) -> list[Result]:
    """Every run of the plan, finished or failed, in its order. Those that are finished in `out` are not run again.

    Raises Interrupted, once all workers have stopped at their checkpoints, when a signal asks to stop; ValueError for
    a folder that is something else, or that another sweep works on.
    """
    folder = SweepFolder(out)
    folder.check_free()
    folder.path.mkdir(parents=True, exist_ok=True)
    with only_writer(folder.path):
        folder.write_about(plan, engine=engine.name, threads=engine.threads, retries=retries)
        folder.runs.mkdir(exist_ok=True)
        driver = _Driver(plan, folder, engine, retries, drop_checkpoints, watcher or Unwatched())
        try:
            driver.drive()
        finally:
            engine.close()
            driver.write_table()
        return driver.in_order()


class _Driver:
    """What is remembered while a sweep goes on: runs that wait, runs with their workers, a line for each that ended."""

    def __init__(
        self,
        plan: Plan,
        folder: SweepFolder,
        engine: Engine,
        retries: int,
        drop_checkpoints: bool,
        watcher: SweepWatcher,
    ):
        self.plan, self.folder, self.engine, self.watcher = plan, folder, engine, watcher
        self.retries, self.drop_checkpoints = retries, drop_checkpoints
        self.survey = survey = folder.survey(plan)
        self.order = [run.name for run in survey.runs]
        self.results = dict(survey.finished)
        self.waiting = Waiting(survey.left)
        self.running: dict[int, PlannedRun] = {}
        self.failures: Counter[str] = Counter()
        self.given_up = 0
        self.pace = Pace(self.results.values())
        self.rough_left = math.fsum(rough_seconds(run.config) for run in survey.left)
        self.table_due = 0.0

    def drive(self) -> None:
        """Until nothing waits and nothing runs."""
        if self.waiting:
            self.engine.start(self.folder.path, len(self.waiting))
        self.watcher.begins(self.survey.prospect(self.engine.workers))
        stopping = False
        with Interrupt() as interrupt:  # after the start, in which Ray takes SIGTERM for itself
            while self.running or (self.waiting and not stopping):
                if interrupt.received and not stopping:
                    stopping = True
                    self.engine.stop()
                    continue
                if not stopping:
                    self._give()
                self.watcher.see(self._standing())
                for worker, report in self.engine.wait(HEARTBEAT):
                    self._take(self.running.pop(worker), report)
                if time.monotonic() > self.table_due:
                    self.write_table()
            if interrupt.received and self.waiting:
                raise Interrupted(interrupt.received)
        self.watcher.see(self._standing())

    def _give(self) -> None:
        for worker in self.engine.idle():
            if self.waiting:
                run = self.running[worker] = self.waiting.take(worker)
                self.engine.give(worker, self._task(run))

    def _task(self, run: PlannedRun) -> Task:
        threads, drop = self.engine.threads, self.drop_checkpoints
        return Task.at(self.folder.runs, run.name, run.config, threads, drop_checkpoints=drop)

    def _take(self, run: PlannedRun, report: Report) -> None:
        if report.ending == "stopped":
            return self.waiting.put(run)
        if report.ending == "failed":
            self.failures[run.name] += 1
            if report.again and self.failures[run.name] <= self.retries:
                self.watcher.failed(run.name, report.reason)
                return self.waiting.put(run)
            self.given_up += 1
        result = result_of(run.name, run.config, list(report.records), report.reason)
        self.results[run.name] = result
        self.rough_left -= rough_seconds(run.config)
        self.pace.ended(result)
        return self.watcher.ended(result)

    def _standing(self) -> Standing:
        return Standing(
            runs=len(self.order),
            finished=len(self.results) - self.given_up,
            failed=self.given_up,
            running=len(self.running),
            seconds_left=self.pace.seconds_for(self.rough_left) / max(1, min(self.engine.workers, len(self.order))),
        )

    def in_order(self) -> list[Result]:
        return [self.results[name] for name in self.order if name in self.results]

    def write_table(self) -> None:
        """Whole, however many rows it has: so the more there are, the less often."""
        started = time.monotonic()
        self.folder.write_results(self.in_order(), self.plan.varying)
        ended = time.monotonic()
        self.table_due = ended + max(TABLE_EVERY, (ended - started) / TABLE_SHARE)
