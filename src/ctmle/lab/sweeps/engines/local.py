"""Runs in processes of this machine, with no more threads in all than there are cores."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector

from ctmle.lab.sweeps.engines.base import home_of_ctmle, workers_for
from ctmle.lab.sweeps.engines.process import STOP
from ctmle.lab.sweeps.work import Report, Task

CLOSING = 5.0
"""Seconds that a process has to end by itself once its input has ended."""


class LocalEngine:
    """Processes live as long as the sweep, so that what one has compiled serves its next runs."""

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
        """To a process that is made when it is first needed."""
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
        """What a process says, or what its silence means."""
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
    """A new interpreter, not a fork, since JAX has threads; in a session of its own: Ctrl-C is for the driver alone."""

    def __init__(self, threads: int, log: Path):
        python_path = [home_of_ctmle(), *filter(None, [os.environ.get("PYTHONPATH")])]
        with log.open("a") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", "from ctmle.lab.sweeps.engines.process import main; main()"],
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
        with suppress(BrokenPipeError):  # if it is gone, the end of its output will say so
            print(line, file=self.input, flush=True)

    def end(self) -> str:
        """How it ended."""
        try:
            self.process.communicate(timeout=CLOSING)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
        code = self.process.returncode
        if code >= 0:
            return f"ended with code {code}"
        name = signal.Signals(-code).name
        return f"was killed by {name}" + (", perhaps for want of memory" if name == "SIGKILL" else "")
