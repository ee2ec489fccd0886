"""Memory of a worker that does runs of several kinds, with and without forgetting what it compiled for the last.

python benchmarks/kinds.py [--kinds 4]
"""

import argparse
import multiprocessing
import resource
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from ctmle.config import preset
from ctmle.sweeps.work import Task, Worker


def do_runs(kinds: int, forgetting: bool) -> None:
    worker, config = Worker(), replace(preset("pendulum", "quick", "sac-tacos"), episodes=1)
    print("forgetting" if forgetting else "keeping everything", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for kind in range(kinds):
            if not forgetting:
                worker.kind = None  # it does not know that it has compiled anything
            started = time.perf_counter()
            report = worker.do(Task.at(Path(folder), f"run{kind}", replace(config, sigma=kind / 2), threads=1))
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            seconds, memory = time.perf_counter() - started, pages * resource.getpagesize() / 1e6
            print(f"  kind {kind + 1}: {report.ending} in {seconds:.1f} s, {memory:.0f} MB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", type=int, default=4)
    arguments = parser.parse_args()
    for forgetting in (False, True):
        process = multiprocessing.get_context("spawn").Process(target=do_runs, args=(arguments.kinds, forgetting))
        process.start()
        process.join()


if __name__ == "__main__":
    main()
