"""Holds against the switch cost: docs/results/switch_cost.csv and docs/switch_cost.png.

    python benchmarks/switch_cost.py                          every cost below, seed 0
    python benchmarks/switch_cost.py --costs 0 0.1 --seeds 2

Every run is an ordinary `ctmle train pendulum --agent sac-tacos --preset convergence` in a process of its own. Finished
runs are kept in `runs/switch_cost` and not repeated. Holds are those of the final policy, without exploration, over its
test trajectories.
"""

import argparse
import csv
import subprocess
import sys
from pathlib import Path

import jax
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from ctmle.lab.run import Run
from ctmle.lab.storage.run_folder import RunFolder
from ctmle.plants.ticks import run_many_ticks

COSTS = (0.0, 0.01, 0.05, 0.2)
RUNS = Path("runs/switch_cost")
COLUMNS: tuple[str, ...] = ("sigma", "switch_cost", "seed", "episodes", "score", "mean_hold", "looks_per_trajectory")


def train(cost: float, seed: int, sigma: float, episodes: int) -> RunFolder:
    path = RUNS / f"sigma{sigma:g}-cost{cost:g}-seed{seed}"
    if not (path / "learning_curve.png").is_file():
        command = [sys.executable, "-m", "ctmle", *(("resume", str(path)) if path.exists() else ())]
        if not path.exists():
            command += ["train", "pendulum", "--agent", "sac-tacos", "--preset", "convergence", "--sigma", str(sigma)]
            command += ["--switch-cost", str(cost), "--seed", str(seed), "--episodes", str(episodes)]
            command += ["--out", str(path)]
        subprocess.run(command, check=True)
    return RunFolder.open(path)


def measure(folder: RunFolder) -> dict[str, float]:
    experiment = folder.read_experiment()
    run, options = Run(experiment), experiment.settings
    policy, episode = run.output(run.restore(folder.read_checkpoint()), "final")
    keys = jax.random.split(jax.random.key(10_000 + options["seed"]), options["test_trajectories"])
    plant = run.simulated
    paths = run_many_ticks(plant.env, policy, keys, step=plant.step, observation=plant.observation)
    decisions = np.asarray(paths.decided).sum(axis=1)
    values = (options["sigma"], options["switch_cost"], options["seed"], episode, run.score(policy, episode).mean)
    held = float(np.mean(options["horizon"] / decisions)), float(np.mean(decisions + 1))
    return dict(zip(COLUMNS, (*values, *held), strict=True))


def plot(rows: list[dict[str, float]], path: Path) -> None:
    figure, (above, below) = plt.subplots(2, 1, figsize=(6.0, 6.0), sharex=True, layout="constrained")
    costs = sorted({row["switch_cost"] for row in rows})
    ticks = {cost: place for place, cost in enumerate(costs)}
    for axes, name, label in ((above, "mean_hold", "mean hold of a decision (s)"), (below, "score", "score")):
        axes.plot([ticks[row["switch_cost"]] for row in rows], [row[name] for row in rows], "o", alpha=0.6)
        means = [np.mean([row[name] for row in rows if row["switch_cost"] == cost]) for cost in costs]
        axes.plot(range(len(costs)), means, color="C0")
        axes.set_ylabel(label)
        axes.grid(alpha=0.3)
    below.set_xticks(range(len(costs)), [f"{cost:g}" for cost in costs])
    below.set_xlabel("switch cost (reward x seconds per decision)")
    above.set_title(f"sac-tacos on pendulum, sigma {rows[0]['sigma']:g}: final policies")
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--costs", type=float, nargs="+", default=COSTS)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--sigma", type=float, default=0.0)
    parser.add_argument("--episodes", type=int, default=60)
    parser.add_argument("--out", type=Path, default=Path("docs"))
    options = parser.parse_args()
    runs = [(cost, seed) for cost in options.costs for seed in range(options.seeds)]
    rows = [measure(train(cost, seed, options.sigma, options.episodes)) for cost, seed in runs]
    (options.out / "results").mkdir(parents=True, exist_ok=True)
    with (options.out / "results" / "switch_cost.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS)
        table.writeheader()
        table.writerows(rows)
    plot(rows, options.out / "switch_cost.png")
    for row in rows:
        print({name: round(value, 3) for name, value in row.items()})


if __name__ == "__main__":
    main()
