"""Runs in processes on this machine, with no more threads in all than there are cores.

A worker process reads tasks from standard input, one per line, and writes reports to standard output. When its input
ends, it ends too, even during a run: its driver is gone, and a later one continues from the last checkpoint.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from queue import SimpleQueue
from selectors import EVENT_READ, DefaultSelector
from threading import Thread

from ctmle.lab.storage.files import open_own
from ctmle.lab.sweeps.engines import Engine, environment_of_worker, workers_for
from ctmle.lab.sweeps.work import Report, Task, Worker

CLOSING = 5.0
"""Seconds that a process has to end by itself once its input has ended."""

STOP = "stop"
"""The line that asks a worker to stop at the next checkpoint."""


class LocalEngine(Engine):
    """Processes that live as long as the sweep, so that a worker's compiled programs serve its next runs."""

    name = "local"

    def __init__(self, workers: int | None = None, threads: int = 1):
        self.workers = workers_for(workers, threads)
        self.threads = threads
        self.log = Path(os.devnull)
        self.processes: dict[int, subprocess.Popen[str]] = {}
        self.busy: set[int] = set()
        self.selector = DefaultSelector()

    def start(self, folder: Path, runs: int) -> None:
        self.log = folder / "workers.log"

    def idle(self) -> list[int]:
        return [worker for worker in range(self.workers) if worker not in self.busy]

    def give(self, worker: int, task: Task) -> None:
        if worker not in self.processes:
            self.processes[worker] = _start_process(self.threads, self.log)
            self.selector.register(_output(self.processes[worker]), EVENT_READ, worker)
        self.busy.add(worker)
        self._tell(worker, task.to_line())

    def wait(self, seconds: float) -> list[tuple[int, Report]]:
        reports = []
        for key, _ in self.selector.select(seconds):
            worker, at_work = key.data, key.data in self.busy
            report = self._report(worker)
            if at_work:
                reports.append((worker, report))
        return reports

    def stop(self) -> None:
        for worker in self.busy:
            self._tell(worker, STOP)

    def close(self) -> None:
        for worker in list(self.processes):
            self._end(worker)

    def _tell(self, worker: int, line: str) -> None:
        with suppress(BrokenPipeError):  # if it is gone, the end of its output will show it
            print(line, file=self.processes[worker].stdin, flush=True)

    def _report(self, worker: int) -> Report:
        """Read the report of a process, or report that it ended without one."""
        line = _output(self.processes[worker]).readline()
        if line.endswith("\n"):
            self.busy.discard(worker)
            return Report.from_line(line)
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
    worker, tasks = Worker(), SimpleQueue[str]()
    Thread(target=_listen, args=(worker, tasks), daemon=True).start()
    while True:
        print(worker.do(Task.from_line(tasks.get())).to_line(), file=reports, flush=True)


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
