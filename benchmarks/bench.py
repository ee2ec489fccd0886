"""What everything costs, in one run: updates, runs to success, start-up, memory, growth, traces, threads.

    make bench                             (python benchmarks/bench.py; some ten minutes on two cores)

Figures go to benchmarks/latest.json, beside what the file had before: what became more than 15% worse is said. The
machine's own matmul rate is among the figures, to tell a slower program from a busier machine.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
LATEST = HERE / "latest.json"
WORSE = 1.15
SEEDS = 3
OTHERS = (
    ("cartpole", "ct-mle"),
    ("acrobot", "ct-mle"),
    ("cartpole-swingup", "ct-mle"),
    ("pendulum", "enode"),
    ("acrobot", "enode"),
    ("pendulum", "sac-tacos"),
    ("acrobot", "sac-tacos"),
)
"""Default runs whose memory is looked at, besides those to success."""
FIRST_UPDATE = """
from ctmle.lab.experiment import from_settings
from ctmle.lab.run import Run
from ctmle.lab.machine import use_compilation_cache, use_threads
use_threads(None)
use_compilation_cache()
run = Run(from_settings({"environment": "pendulum", "chunk": 1}))
state = run.init()
while run.agent.ready(state):
    state, policy, looks = run.agent.propose(state, run.schedule)
    state = run.agent.observe(state, run.act(state, policy, looks))
run.agent.advance(state, run.schedule).step.block_until_ready()
"""


def timed(command: list[str], cache: str) -> tuple[float, float, str]:
    """Seconds, peak memory in GB, and output of a process that has its compiled programs in `cache`."""
    started = time.perf_counter()
    with tempfile.TemporaryFile("w+") as output:
        environment = {**os.environ, "XDG_CACHE_HOME": cache}
        environment.pop("JAX_COMPILATION_CACHE_DIR", None)
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        output.seek(0)
        said = output.read()
    if os.waitstatus_to_exitcode(status) != 0:
        sys.exit(f"{' '.join(command)} failed:\n{said}")
    return time.perf_counter() - started, usage.ru_maxrss * 1024 / 1e9, said


def script(name: str, cache: str, *arguments: str) -> str:
    """The output of a benchmark of its own, of which the last line is JSON."""
    said = timed([sys.executable, str(HERE / name), *arguments], cache)[2]
    print("\n".join(said.splitlines()[:-1]), flush=True)
    return said.splitlines()[-1]


def ctmle(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "ctmle", *arguments]


def update_figures(cache: str) -> dict[str, float]:
    figures = {}
    for preset, threads in (("default", ()), ("paper", ()), ("default", ("--threads", "1"))):
        print(f"-- updates, preset {preset} {' '.join(threads)}")
        for found in json.loads(script("updates.py", cache, "--preset", preset, *threads)):
            name = f"{preset}{' on one thread' if threads else ''}: {found['name']}"
            figures[f"{name}, ms"] = found["milliseconds"]
            if not threads:
                figures[f"{name}, share of peak"] = found["share_of_peak"]
                figures[f"{name}, products' share of peak"] = found["products_share_of_peak"]
                figures[f"{name}, peak GFLOP/s"] = found["peak"]
    both, one = (
        sum(figures[f"default{threads}: {name}, ms"] * count for name, count in UPDATES_PER_EPISODE.items())
        for threads in ("", " on one thread")
    )
    figures["one thread over all, times as long"] = one / both
    return figures


UPDATES_PER_EPISODE: dict[str, int] = {"dynamics update": 500, "policy update": 250}


def run_figures(cache: str, folder: str) -> dict[str, float]:
    """Whole processes: to success with nothing compiled yet and with everything, and the memory of default runs."""
    print("-- default runs to success on pendulum at sigma 2.0")
    figures: dict[str, float] = {}
    memory = {}
    for seed in (0, *range(SEEDS)):
        label = "cold" if not figures else f"warm, seed {seed}"
        out = f"{folder}/{label.replace(', ', '-').replace(' ', '')}"
        seconds, memory["pendulum ct-mle"], _ = timed(
            ctmle("train", "pendulum", "--stop-at-success", "--seed", str(seed), "--out", out), cache
        )
        records = [json.loads(line) for line in Path(out, "metrics.jsonl").read_text().splitlines()]
        figures[f"to success, {label}, s"] = seconds
        how = "success" if records[-1]["success"] else "NO success"
        print(f"{label}: {seconds:.1f} s, {how} in episode {records[-1]['episode']}", flush=True)
    print("-- memory of default runs")
    for environment, agent in OTHERS:
        out = f"{folder}/{environment}-{agent}"
        few = {"ct-mle": ("--policy-updates", "50"), "enode": ("--dynamics-updates", "50", "--policy-updates", "50")}
        command = ctmle("train", environment, "--agent", agent, "--episodes", "1", "--out", out, *few.get(agent, ()))
        memory[f"{environment} {agent}"] = timed(command, cache)[1]
    for name, gigabytes in memory.items():
        print(f"{name}: {gigabytes:.2f} GB", flush=True)
    return figures | {"memory at most, GB": max(memory.values())}


def start_figures(cache: str) -> dict[str, float]:
    print("-- start")
    figures = {
        "help, s": min(timed(ctmle("--help"), cache)[0] for _ in range(5)),
        "first update, cached, s": min(timed([sys.executable, "-c", FIRST_UPDATE], cache)[0] for _ in range(3)),
    }
    print(", ".join(f"{name}: {value:.2f}" for name, value in figures.items()), flush=True)
    return figures


def growth_figures(cache: str, episodes: int) -> dict[str, float]:
    print(f"-- {episodes} episodes")
    found = json.loads(script("growth.py", cache, "--episodes", str(episodes)))
    return {"late over early episodes": found["growth"], "traces at most": max(found["traces"].values())}


def compare(figures: dict[str, float], before: dict[str, float]) -> None:
    """Of each figure the ratio to the one before; higher is better for shares and rates, lower for all others."""
    print("-- beside the last time" if before else "-- no earlier figures to compare with")
    for name, value in figures.items():
        if not before.get(name):
            continue
        ratio = value / before[name]
        worse = 1 / ratio if "peak" in name else ratio
        print(f"{name}: {before[name]:.3g} -> {value:.3g}" + ("  SLOWER" if worse > WORSE else ""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=50, help="of the run that looks at growth")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cache = f"{folder}/cache"
        figures = run_figures(cache, folder) | start_figures(cache) | update_figures(cache)
        figures |= growth_figures(cache, arguments.episodes)
    before = json.loads(LATEST.read_text()) if LATEST.exists() else {}
    compare(figures, before)
    LATEST.write_text(json.dumps(figures, indent=1) + "\n")
    print(f"written to {LATEST}")


if __name__ == "__main__":
    main()
