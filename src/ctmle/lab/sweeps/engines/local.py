"""Runs in processes on this machine, with no more threads in all than there are cores.

A worker process reads tasks from standard input, one per line, and writes reports to standard output. When its input
ends, it ends too, even during a run: its driver is gone, and a later one continues from the last checkpoint.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from selectors import EVENT_READ, DefaultSelector
from threading import Thread
from typing import TextIO

from ctmle.lab.sweeps.engines.base import Engine, home_of_ctmle, workers_for
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
        self.processes: dict[int, _Process] = {}
        self.busy: set[int] = set()
        self.selector = DefaultSelector()

    def start(self, folder: Path, runs: int) -> None:
        self.log = folder / "workers.log"

    def idle(self) -> list[int]:
        return [worker for worker in range(self.workers) if worker not in self.busy]

    def give(self, worker: int, task: Task) -> None:
        if worker not in self.processes:
            self.processes[worker] = _Process(self.threads, self.log)
            self.selector.register(self.processes[worker].output, EVENT_READ, worker)
        self.busy.add(worker)
        self.processes[worker].tell(task.to_line())

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
            self.processes[worker].tell(STOP)

    def close(self) -> None:
        for worker in list(self.processes):
            self._end(worker)

    def _report(self, worker: int) -> Report:
        """Read the report of a process, or report that it ended without one."""
        line = self.processes[worker].output.readline()
        if line.endswith("\n"):
            self.busy.discard(worker)
            return Report.from_line(line)
        fate = self._end(worker)
        return Report("failed", reason=f"its worker {fate} (see {self.log})", again=True)

    def _end(self, worker: int) -> str:
        process = self.processes.pop(worker)
        self.busy.discard(worker)
        self.selector.unregister(process.output)
        return process.end()


class _Process:
    """A new interpreter, because JAX has threads and cannot be forked.

    It has a session of its own: Ctrl-C reaches the driver only.
    """

    def __init__(self, threads: int, log: Path):
        python_path = [home_of_ctmle(), *filter(None, [os.environ.get("PYTHONPATH")])]
        with log.open("a") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", "from ctmle.lab.sweeps.engines.local import work; work()"],
                env={**os.environ, "PJRT_NPROC": str(threads), "PYTHONPATH": os.pathsep.join(python_path)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                start_new_session=True,
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.input, self.output = self.process.stdin, self.process.stdout

    def tell(self, line: str) -> None:
        with suppress(BrokenPipeError):  # if it is gone, the end of its output will show it
            print(line, file=self.input, flush=True)

    def end(self) -> str:
        """End the process; return how it ended, in words."""
        try:
            self.process.communicate(timeout=CLOSING)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
        code = self.process.returncode
        if code >= 0:
            return f"ended with code {code}"
        name = signal.Signals(-code).name
        return f"was killed by {name}" + (", perhaps because memory ran out" if name == "SIGKILL" else "")


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
            worker.interrupt.ask()
        else:
            tasks.put(line)
    os._exit(0)


def _keep_for_reports() -> TextIO:
    """Return standard output for reports only; what libraries print goes to the log from now on."""
    reports = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return reports
