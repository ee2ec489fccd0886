"""What a run costs in a sweep: seconds of its start and of an episode, memory and disk, for each agent and system.

    python benchmarks/run_costs.py [--episodes 2] [--workers 2] [--agents ct-mle enode] [--environments pendulum]

Default runs on one thread each, two side by side, each in a process of its own, as a sweep's first run in a worker is.
Every run is done twice, and the second is measured: it reads its programs back from the cache. `start` is all that is
not of an episode: importing JAX, initial data, files. Tracing and reading programs back are part of the first episode.
"""

import argparse
import multiprocessing
import resource
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ctmle.lab.experiment import from_settings
from ctmle.lab.report.results import Settings, result_of
from ctmle.lab.sweeps.plan import settings_of
from ctmle.lab.sweeps.work import Task, Worker
from ctmle.registry import AGENTS

ENVIRONMENTS = ("pendulum", "cartpole", "acrobot", "cartpole-swingup")


@dataclass(frozen=True)
class Cost:
    """Of one run. Memory is the most that the process ever had."""

    start: float
    episode: float
    gigabytes: float
    megabytes_on_disk: float


def cost_of(settings: Settings, started: float) -> Cost:
    """In this process, which was asked for at the time `started`."""
    with tempfile.TemporaryDirectory() as folder:
        report = Worker().do(Task.at(Path(folder), "run", settings, threads=1))
        if report.ending != "finished":
            raise RuntimeError(report.reason)
        disk = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
    seconds = time.monotonic() - started
    in_episodes = result_of("run", settings, list(report.records)).seconds
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    return Cost(seconds - in_episodes, in_episodes / settings["episodes"], memory, disk / 1e6)


def measured(settings: Settings) -> Cost:
    """In a new process, after another that leaves its programs in the cache."""
    spawn = multiprocessing.get_context("spawn")
    for last in (False, True):
        once = settings if last else {**settings, "episodes": 1}
        with ProcessPoolExecutor(1, mp_context=spawn) as fresh:
            cost = fresh.submit(cost_of, once, time.monotonic()).result()
    return cost


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--agents", nargs="+", choices=AGENTS.names, default=AGENTS.names)
    parser.add_argument("--environments", nargs="+", choices=ENVIRONMENTS, default=ENVIRONMENTS)
    arguments = parser.parse_args()
    asked = [(agent, environment) for agent in arguments.agents for environment in arguments.environments]
    runs = [
        settings_of(from_settings({"environment": system, "agent": agent, "episodes": arguments.episodes}))
        for agent, system in asked
    ]
    print("| agent | system | start, s | an episode, s | memory, GB | on disk, MB |\n|---|---|---|---|---|---|")
    with ThreadPoolExecutor(arguments.workers) as side_by_side:
        for (agent, environment), cost in zip(asked, side_by_side.map(measured, runs), strict=True):
            print(
                f"| {agent} | {environment} | {cost.start:.1f} | {cost.episode:.1f} | {cost.gigabytes:.2f} |"
                f" {cost.megabytes_on_disk:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
