"""Runs per hour of a sweep on two workers, against the same runs one after another in one process.

    python benchmarks/throughput.py [--preset default] [--episodes 1] [--environment pendulum] [--runs 8]

Three ways, each with a process of its own from the start: two workers of one thread; one of one thread; one of two
threads. Programs are compiled once before, since every way reads them back from the same cache.
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path

from ctmle.lab.experiment import from_settings
from ctmle.lab.sweeps import Plan, run_sweep
from ctmle.lab.sweeps.engines.local import LocalEngine

WAYS = {
    "two workers, one thread each": (2, 1),
    "one after another, one thread": (1, 1),
    "one after another, two threads": (1, 2),
}


def seconds_of(plan: Plan, workers: int, threads: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        results = run_sweep(plan, Path(folder) / "sweep", LocalEngine(workers, threads))
    failed = [result.reason for result in results if result.status == "failed"]
    if failed:
        raise RuntimeError(f"a run failed: {failed[0]}")
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environment", default="pendulum")
    parser.add_argument("--agent", default="ct-mle")
    parser.add_argument("--preset", default="default")
    parser.add_argument("--episodes", type=int, default=1)
    parser.add_argument("--runs", type=int, default=8)
    arguments = parser.parse_args()
    origin = {"environment": arguments.environment, "agent": arguments.agent, "preset": arguments.preset}
    experiment = from_settings({**origin, "episodes": arguments.episodes})
    for threads in (1, 2):
        seconds_of(Plan.of([experiment]), 1, threads)
    plan = Plan.of(experiment.changed({"seed": seed}) for seed in range(arguments.runs))
    taken = {name: seconds_of(plan, *way) for name, way in WAYS.items()}
    sweep = taken["two workers, one thread each"]
    for name, seconds in taken.items():
        print(
            f"{name}: {arguments.runs} runs in {seconds:.1f} s, {3600 * arguments.runs / seconds:.0f} per hour;"
            f" the sweep does {seconds / sweep:.2f} times as many"
        )
    # Of the children that have ended, which the workers have.
    print(f"the largest worker had {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3:.0f} MB")


if __name__ == "__main__":
    main()
