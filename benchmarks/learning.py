"""Episodes to success over seeds: the table in docs/results.md.

    python benchmarks/learning.py                      the whole table (about an hour on two cores)
    python benchmarks/learning.py pendulum --seeds 2   a part of it

Every run is an ordinary `ctmle train` with the default preset in a process of its own, on one thread, as many at a
time as there are cores. Finished runs are kept in `runs/learning` and not repeated.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Row:
    """One line of the table: a system, its noise, and what is asked of it."""

    environment: str
    sigma: float
    seeds: int
    episodes: int
    options: tuple[str, ...] = ()


ROWS = (
    Row("pendulum", 2.0, seeds=5, episodes=5),
    Row("pendulum", 0.0, seeds=5, episodes=3),
    Row("cartpole", 2.0, seeds=3, episodes=5),
    Row("acrobot", 2.0, seeds=3, episodes=15, options=("--stop-at-success",)),
    Row("cartpole-swingup", 2.0, seeds=3, episodes=15, options=("--stop-at-success",)),
)
COLUMNS: tuple[str, ...] = (
    "environment",
    "sigma",
    "seed",
    "first_success",
    "looks",
    "scores",
    "diffusion_over_true",
    "seconds",
)


def train(row: Row, seed: int, out: Path, extra: list[str]) -> dict[str, object]:
    folder = out / f"{row.environment}-{row.sigma:g}-{seed}"
    if not (folder / "learning_curve.png").exists():
        command = [
            sys.executable, "-m", "ctmle", "train", row.environment, "--sigma", str(row.sigma),
            "--seed", str(seed), "--episodes", str(row.episodes), "--out", str(folder), *row.options, *extra,
        ]  # fmt: skip
        environment = {**os.environ, "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"}
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    first = next((r for r in records if r["success"]), None)
    ratios = zip(records[-1]["diffusion_learned"], records[-1]["diffusion_true"], strict=True)
    scores = " ".join(f"{r['score']:.3f}" for r in records)
    print(f"{folder.name}: {scores}", flush=True)
    return {
        "environment": row.environment,
        "sigma": row.sigma,
        "seed": seed,
        "first_success": first["episode"] if first else "",
        "looks": first["looks"] if first else "",
        "scores": scores,
        "diffusion_over_true": " ".join(f"{a / b:.2f}" for a, b in ratios if b > 0),
        "seconds": round(sum(value for r in records for key, value in r.items() if key.endswith("seconds"))),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environments", nargs="*", help="only these (default: all)")
    parser.add_argument("--seeds", type=int, help="at most this many seeds each")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs at a time")
    parser.add_argument("--out", type=Path, default=Path("runs/learning"), help="where the run folders go")
    parser.add_argument("--csv", type=Path, help="write the table here too")
    arguments, extra = parser.parse_known_args()
    rows = [row for row in ROWS if not arguments.environments or row.environment in arguments.environments]
    tasks = [(row, seed) for row in rows for seed in range(min(row.seeds, arguments.seeds or row.seeds))]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        results = list(pool.map(lambda task: train(task[0], task[1], arguments.out, extra), tasks))
    print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS))
    for result in results:
        print("| " + " | ".join(str(result[column]) for column in COLUMNS) + " |")
    if arguments.csv:
        with arguments.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(results)


if __name__ == "__main__":
    main()
