"""What the driver of a sweep holds and how long it prepares, without running anything.

    python benchmarks/driver.py [--runs 100000]

Each run has a made-up result of five episodes. Memory is what the process has taken
since before the plan.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ctmle.lab.report.results import result_of
from ctmle.lab.sweeps.folder import SweepFolder
from ctmle.lab.sweeps.plan_file import read_plan
from ctmle.lab.sweeps.sweep import Waiting

Made = TypeVar("Made")

RECORDS = [
    {"episode": n, "score": 0.9 + n / 997, "score_se": n / 991, "success": True, "looks": 161 * n, "test_seconds": 1.0}
    for n in range(1, 6)
]


def memory() -> float:
    """Megabytes."""
    with Path("/proc/self/statm").open() as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


def timed(what: str, make: Callable[[], Made]) -> Made:
    started = time.process_time()
    made = make()
    print(f"{what}: {time.process_time() - started:.1f} s of computing, {memory() - BEFORE:.0f} MB so far")
    return made


BEFORE = memory()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100_000)
    count = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as path:
        file, folder = Path(path) / "sweep.toml", SweepFolder(Path(path))
        file.write_text(f"[grid]\nsigma = [0.0, 0.5, 1.0, 1.5, 2.0]\nseed = {[*range(count // 5)]}\n")
        plan = timed(f"plan of {count // 5 * 5} runs", lambda: read_plan(file))
        timed("looking for their folders", lambda: folder.survey(plan))
        timed("sorting them by kind", lambda: Waiting(plan.runs))
        results = timed("results", lambda: [result_of(run.name, run.settings, RECORDS) for run in plan.runs])
        timed("writing the table", lambda: folder.write_results(results, plan.varying))
        print(f"the table has {folder.results_file.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
