"""Runs in processes on this machine, with no more threads in all than there are cores.

A worker process reads tasks from standard input, one per line, and writes reports to standard output. When its input
ends, it ends too, even during a run: its driver is gone, and a later one continues from the last checkpoint.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from queue import SimpleQueue
from selectors import EVENT_READ, DefaultSelector
from threading import Lock, Thread

from ctmle.lab.storage.files import open_own
from ctmle.lab.sweeps.engines import BEAT, SILENCE, Engine, environment_of_worker, workers_for
from ctmle.lab.sweeps.work import Report, Task, Worker

CLOSING = 5.0
"""Seconds that a process has to end by itself once its input has ended."""

STARTING = 60.0
"""Seconds that a process has to start, before it must give signs of life."""

STOP, ALIVE = "stop", "alive"
"""The line that asks a worker to stop at the next checkpoint, and the line that is its sign of life."""

AT_ONCE = 1_000_000
"""Bytes that are read from a worker at a time."""


class LocalEngine(Engine):
    """Processes that live as long as the sweep, so that a worker's compiled programs serve its next runs."""

    name = "local"

    def __init__(self, workers: int | None = None, threads: int = 1):
        self.workers = workers_for(workers, threads)
        self.threads = threads
        self.log = Path(os.devnull)
        self.processes: dict[int, subprocess.Popen[str]] = {}
        self.busy: set[int] = set()
        self.heard: dict[int, float] = {}
        """When each worker last gave a sign of life."""
        self.unread: dict[int, bytes] = {}
        """The beginning of each worker's next line, as far as it has been read."""
        self.selector = DefaultSelector()

    def start(self, folder: Path, runs: int) -> None:
        self.log = folder / "workers.log"

    def idle(self) -> list[int]:
        return [worker for worker in range(self.workers) if worker not in self.busy]

    def give(self, worker: int, task: Task) -> None:
        if worker not in self.processes:
            self.processes[worker] = _start_process(self.threads, self.log)
            self.selector.register(_output(self.processes[worker]), EVENT_READ, worker)
            self.unread[worker] = b""
            self.heard[worker] = time.monotonic() + STARTING
        self.heard[worker] = max(self.heard[worker], time.monotonic())
        self.busy.add(worker)
        self._tell(worker, task.to_line())

    def wait(self, seconds: float) -> list[tuple[int, Report]]:
        reports = []
        for key, _ in self.selector.select(seconds):
            worker, at_work = key.data, key.data in self.busy
            report = self._report(worker)
            if at_work and report is not None:
                reports.append((worker, report))
        for worker in [w for w in self.busy if time.monotonic() - self.heard[w] > SILENCE]:
            self.lose(worker)
            reports.append((worker, Report("failed", reason=f"its worker was silent for {SILENCE:g} s", again=True)))
        return reports

    def stop(self, worker: int) -> None:
        self._tell(worker, STOP)

    def lose(self, worker: int) -> None:
        if worker in self.processes:
            self.processes[worker].kill()
            self._end(worker)

    def close(self) -> None:
        for worker in list(self.processes):
            self._end(worker)

    def _tell(self, worker: int, line: str) -> None:
        with suppress(BrokenPipeError):  # if it is gone, the end of its output will show it
            print(line, file=self.processes[worker].stdin, flush=True)

    def _report(self, worker: int) -> Report | None:
        """Read what a process has written: signs of life, or its report. Report that it ended without one."""
        content = os.read(_output(self.processes[worker]).fileno(), AT_ONCE)
        if content:
            self.heard[worker] = time.monotonic()
            *lines, self.unread[worker] = (self.unread[worker] + content).split(b"\n")
            reports = [line for line in lines if line.decode() != ALIVE]
            if reports:
                self.busy.discard(worker)
                return Report.from_line(reports[0].decode())
            return None
        fate = self._end(worker)
        return Report("failed", reason=f"its worker {fate} (see {self.log})", again=True)

    def _end(self, worker: int) -> str:
        """End a worker's process; return how it ended, in words."""
        process = self.processes.pop(worker)
        self.busy.discard(worker)
        self.selector.unregister(_output(process))
        try:
            process.communicate(timeout=CLOSING)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        if process.returncode >= 0:
            return f"ended with code {process.returncode}"
        name = signal.Signals(-process.returncode).name
        return f"was killed by {name}" + (", perhaps because memory ran out" if name == "SIGKILL" else "")


def _start_process(threads: int, log: Path) -> subprocess.Popen[str]:
    """Start a new interpreter, because JAX has threads and cannot be forked.

    It has a session of its own: Ctrl-C reaches the driver only.
    """
    with os.fdopen(open_own(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "a") as file:
        return subprocess.Popen(
            [sys.executable, "-P", "-c", "from ctmle.lab.sweeps.engines.local import work; work()"],
            env={**os.environ, **environment_of_worker(threads)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            start_new_session=True,
        )


def _output(process: subprocess.Popen[str]) -> TextIOWrapper:
    assert isinstance(process.stdout, TextIOWrapper)  # it is a pipe of text
    return process.stdout


def work() -> None:
    """Do tasks until the input ends: the main function of a worker process. Never returns."""
    reports = _keep_for_reports()
    worker, tasks, one_at_a_time = Worker(), SimpleQueue[str](), Lock()

    def tell(line: str) -> None:
        with one_at_a_time:
            print(line, file=reports, flush=True)

    Thread(target=_listen, args=(worker, tasks), daemon=True).start()
    Thread(target=_beat, args=(tell,), daemon=True).start()
    while True:
        tell(worker.do(Task.from_line(tasks.get())).to_line())


def _beat(tell: Callable[[str], None]) -> None:
    """Give signs of life for as long as the driver reads them."""
    with suppress(OSError):
        while True:
            tell(ALIVE)
            time.sleep(BEAT)


def _listen(worker: Worker, tasks: SimpleQueue[str]) -> None:
    for line in sys.stdin:
        if line.strip() == STOP:
            worker.stop()
        else:
            tasks.put(line)
    os._exit(0)


def _keep_for_reports() -> TextIOWrapper:
    """Return standard output for reports only; what libraries print goes to the log from now on."""
    reports = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return reports
