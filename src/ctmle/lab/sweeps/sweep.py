"""The driver of a sweep: gives runs to workers, receives their reports, and keeps one line of each run."""

import math
import time
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ctmle.lab.interrupt import Interrupt, Interrupted
from ctmle.lab.report.progress import Standing, SweepWatcher
from ctmle.lab.report.results import RunResult, result_of
from ctmle.lab.storage.files import only_writer
from ctmle.lab.sweeps.engines import Engine
from ctmle.lab.sweeps.folder import SweepFolder
from ctmle.lab.sweeps.plan import Plan, PlannedRun
from ctmle.lab.sweeps.work import Report, Task

HEARTBEAT = 0.5
"""Seconds between two checks for a signal."""

GRACE = 60.0
"""Seconds that a worker has to reach a checkpoint once a time limit has passed. Then it is ended."""

TABLE_EVERY, TABLE_SHARE = 1.0, 0.02
"""Least seconds between two writes of the table of results, and the largest share of all time that they may take."""


class TimeIsUp(Exception):  # noqa: N818 - nothing went wrong
    """The sweep stopped at checkpoints because its time limit passed."""


@dataclass(frozen=True)
class Limits:
    """Seconds that a run, in one attempt, and the whole sweep may take; none: as long as they like."""

    run: float | None = None
    sweep: float | None = None


def run_sweep(
    plan: Plan,
    out: Path,
    engine: Engine,
    *,
    retries: int = 2,
    drop_checkpoints: bool = False,
    accept_different: bool = False,
    limits: Limits = Limits(),
    watchers: tuple[SweepWatcher, ...] = (),
) -> list[RunResult]:
    """Do every run of the plan that is not finished in `out`; return all results, in the plan's order.

    Raises Interrupted, once all workers have stopped at their checkpoints, when a signal asks to stop; TimeIsUp in the
    same way when the sweep's time is over; ValueError for a folder that holds something else, or that another sweep
    works on. A run that takes too long stops at a checkpoint and counts as failed.
    """
    folder = SweepFolder(out)
    folder.check_free()
    folder.path.mkdir(parents=True, exist_ok=True)
    with only_writer(folder.path):
        folder.write_about(plan, engine=engine.name, threads=engine.threads, retries=retries)
        folder.runs.mkdir(exist_ok=True)
        tasks = {"drop_checkpoints": drop_checkpoints, "accept_different": accept_different}
        driver = _Driver(plan, folder, engine, retries, tasks, limits, watchers)
        try:
            driver.drive()
        finally:
            engine.close()
            driver.write_table()
        return driver.in_order()


class Waiting:
    """Queue of runs in the plan's order; a worker continues with the kind that it has compiled programs for."""

    def __init__(self, runs: Iterable[PlannedRun]):
        self.kinds: dict[str, deque[PlannedRun]] = {}
        self.last: dict[int, str] = {}
        """The kind that each worker was given last."""
        self.count = 0
        for run in runs:
            self.put(run)

    def __len__(self) -> int:
        return self.count

    def put(self, run: PlannedRun) -> None:
        self.kinds.setdefault(run.kind, deque()).append(run)
        self.count += 1

    def take(self, worker: int) -> PlannedRun:
        """Remove and return the next run for this worker."""
        kind = self.last[worker] = self._choose(worker)
        run = self.kinds[kind].popleft()
        if not self.kinds[kind]:
            del self.kinds[kind]
        self.count -= 1
        return run

    def _choose(self, worker: int) -> str:
        """Choose the worker's last kind; else the first that no other worker has; else the one with most runs."""
        own = self.last.get(worker)
        if own in self.kinds:
            return own
        taken = set(self.last.values())
        free = next((kind for kind in self.kinds if kind not in taken), None)
        return free if free is not None else max(self.kinds, key=lambda kind: len(self.kinds[kind]))


@dataclass
class _Driver:
    """State of a sweep: runs that wait, runs at their workers, results of those that ended."""

    plan: Plan
    folder: SweepFolder
    engine: Engine
    retries: int
    tasks: dict[str, bool]
    """How every run is done."""
    limits: Limits
    watchers: tuple[SweepWatcher, ...]

    def __post_init__(self) -> None:
        self.survey = self.folder.survey(self.plan)
        self.results = dict(self.survey.finished)
        self.waiting = Waiting(self.survey.left)
        self.running: dict[int, PlannedRun] = {}
        self.given: dict[int, float] = {}
        """When each worker was given its run."""
        self.late: set[int] = set()
        """Workers that were asked to stop because their run took too long."""
        self.failures: Counter[str] = Counter()
        self.given_up = 0
        self.pace = self.survey.pace
        self.table_due = 0.0

    def drive(self) -> None:
        """Give runs and receive reports until nothing waits and nothing runs."""
        if self.waiting:
            self.engine.start(self.folder.path, len(self.waiting))
        for watcher in self.watchers:
            watcher.begins(self.survey.prospect(self.engine.workers))
        ends = time.monotonic() + (self.limits.sweep or math.inf)
        with Interrupt() as interrupt:  # after the start, in which Ray takes SIGTERM for itself
            stopped_at = None
            while self.running or (self.waiting and stopped_at is None):
                now = time.monotonic()
                if stopped_at is None and (interrupt.received or now > ends):
                    stopped_at = now
                    for worker in self.running:
                        self.engine.stop(worker)
                if stopped_at is None:
                    self._give()
                    self._hurry()
                elif now > stopped_at + GRACE and not interrupt.received:
                    break
                self._show()
                for worker, report in self.engine.wait(HEARTBEAT):
                    self._receive(worker, report)
                if time.monotonic() > self.table_due:
                    self.write_table()
            if interrupt.received and (self.waiting or self.running):
                raise Interrupted(interrupt.received)
            if self.waiting or self.running:
                raise TimeIsUp(f"the sweep's time limit of {self.limits.sweep:g} s is over")
        self._show()

    def _hurry(self) -> None:
        """Stop runs that take too long; end workers that do not stop."""
        over = {
            worker: time.monotonic() - since - (self.limits.run or math.inf) for worker, since in self.given.items()
        }
        for worker in [worker for worker, seconds in over.items() if seconds > 0 and worker not in self.late]:
            self.late.add(worker)
            self.engine.stop(worker)
        for worker in [worker for worker in self.late if over[worker] > GRACE]:
            self._receive(worker, Report("stopped"))

    def _give(self) -> None:
        for worker in self.engine.idle():
            if self.waiting:
                run = self.running[worker] = self.waiting.take(worker)
                self.given[worker] = time.monotonic()
                threads = self.engine.threads
                self.engine.give(worker, Task.at(self.folder.runs, run.name, run.settings, threads, **self.tasks))

    def _receive(self, worker: int, report: Report) -> None:
        run, _, late = self.running.pop(worker), self.given.pop(worker), worker in self.late
        self.late.discard(worker)
        if late:
            self.engine.lose(worker)  # it was asked to stop, and would stop its next run too
            if report.ending == "stopped":
                reason = f"it took longer than --time-limit {self.limits.run:g} s; its checkpoints are kept"
                report = Report("failed", reason=reason)
        if report.ending == "stopped":
            return self.waiting.put(run)
        if report.ending == "failed":
            self.failures[run.name] += 1
            if report.again and self.failures[run.name] <= self.retries:
                for watcher in self.watchers:
                    watcher.failed(run.name, report.reason)
                return self.waiting.put(run)
            self.given_up += 1
        result = self.results[run.name] = result_of(run.name, run.settings, list(report.records), report.reason)
        if report.ending == "finished":
            self.pace.measured(run.kind, result.seconds)
        self.pace.ended(run.kind)
        for watcher in self.watchers:
            watcher.ended(result)
        return None

    def _show(self) -> None:
        runs, seconds = len(self.survey.runs), self.pace.seconds_left
        at_a_time = max(1, min(self.engine.workers, runs))
        standing = Standing(
            runs=runs,
            finished=len(self.results) - self.given_up,
            failed=self.given_up,
            running=len(self.running),
            seconds_left=None if seconds is None else seconds / at_a_time,
        )
        for watcher in self.watchers:
            watcher.see(standing)

    def in_order(self) -> list[RunResult]:
        return [self.results[run.name] for run in self.survey.runs if run.name in self.results]

    def write_table(self) -> None:
        """Write the table of results, the less often the more rows it has: it is always written whole."""
        started = time.monotonic()
        self.folder.write_results(self.in_order(), self.plan.varying)
        ended = time.monotonic()
        self.table_due = ended + max(TABLE_EVERY, (ended - started) / TABLE_SHARE)
