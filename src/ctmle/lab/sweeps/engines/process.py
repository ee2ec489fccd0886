"""A worker process of the local engine.

Tasks come in by standard input, one per line, and reports go out by standard output. When the input ends, so does the
process, in mid-run too: whoever drove it is gone, and what it has saved is enough to go on from.
"""

import os
import sys
from queue import SimpleQueue
from threading import Thread
from typing import TextIO

from ctmle.lab.sweeps.work import Task, Worker

STOP = "stop"
"""The line that asks to stop at the next checkpoint."""


def main() -> None:
    """Never returns."""
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
    """Standard output, out of the way of libraries that print: for them it is the log from now on."""
    reports = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return reports
