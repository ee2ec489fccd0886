"""Memory of a worker after each of its runs: of several kinds, with and without forgetting; of one kind.

    python benchmarks/worker_memory.py [--runs 6] [--agent ct-mle]

Runs of a kind differ in their seeds alone and share their programs; what was compiled for another kind is forgotten.
"""

import argparse
import multiprocessing
import resource
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from ctmle.config import AGENT_NAMES, TrainConfig, preset
from ctmle.lab.sweeps.work import Task, Worker


def do_runs(what: str, configs: Iterable[TrainConfig], forgetting: bool) -> None:
    worker, found = Worker(), []
    with tempfile.TemporaryDirectory() as folder:
        for number, config in enumerate(configs):
            if not forgetting:
                worker.kind = None  # it does not know that it has compiled anything
            report = worker.do(Task.at(Path(folder), f"run{number}", config, threads=1))
            if report.ending != "finished":
                raise RuntimeError(report.reason)
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            found.append(f"{pages * resource.getpagesize() / 1e6:.0f}")
    print(f"{what}: {', '.join(found)} MB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--agent", choices=AGENT_NAMES, default="ct-mle")
    arguments = parser.parse_args()
    base, runs = replace(preset("pendulum", "quick", arguments.agent), episodes=1), range(arguments.runs)
    kinds, seeds = [replace(base, sigma=i / 2) for i in runs], [replace(base, seed=i) for i in runs]
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
