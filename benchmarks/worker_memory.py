"""Memory of a worker after each of its runs: of several kinds, with and without forgetting; of one kind.

    python benchmarks/worker_memory.py [--runs 6] [--agent ct-mle]

Runs of a kind differ in their seeds alone and share their programs; what was compiled for another kind is forgotten.
"""

import argparse
import multiprocessing
import resource
import tempfile
from collections.abc import Iterable
from pathlib import Path

from ctmle.lab.experiment import from_settings
from ctmle.lab.report.results import Settings
from ctmle.lab.sweeps.plan import settings_of
from ctmle.lab.sweeps.work import Task, Worker
from ctmle.registry import AGENTS


def do_runs(what: str, runs: Iterable[Settings], forgetting: bool) -> None:
    worker, found = Worker(), []
    with tempfile.TemporaryDirectory() as folder:
        for number, settings in enumerate(runs):
            if not forgetting:
                worker.kind = None  # it does not know that it has compiled anything
            report = worker.do(Task.at(Path(folder), f"run{number}", settings, threads=1))
            if report.ending != "finished":
                raise RuntimeError(report.reason)
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            found.append(f"{pages * resource.getpagesize() / 1e6:.0f}")
    print(f"{what}: {', '.join(found)} MB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--agent", choices=AGENTS.names, default="ct-mle")
    arguments = parser.parse_args()
    base = from_settings({"environment": "pendulum", "preset": "quick", "agent": arguments.agent, "episodes": 1})
    kinds = [settings_of(base.changed({"sigma": i / 2})) for i in range(arguments.runs)]
    seeds = [settings_of(base.changed({"seed": i})) for i in range(arguments.runs)]
    for question in (
        ("kinds, keeping everything", kinds, False),
        ("kinds, forgetting", kinds, True),
        ("seeds of one kind", seeds, True),
    ):
        process = multiprocessing.get_context("spawn").Process(target=do_runs, args=question)
        process.start()
        process.join()


if __name__ == "__main__":
    main()
