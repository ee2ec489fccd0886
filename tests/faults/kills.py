"""Kill a real training run again and again, resume it each time, and compare with a run that was left alone.

    python tests/faults/table.py --only kills        (`make faults` runs all classes)

Half of the kills come at random instants, half in the middle of writing a file. Nothing may be lost: the final
weights, data and metrics (but for wall-clock entries) must be the same bytes.
"""

import json
import os
import random
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tally import Tally  # pyright: ignore[reportMissingImports]

VICTIM = Path(__file__).parent / "victim.py"
NEVER = "0"
SHARED = "--horizon 4 --step 0.05 --episodes 2 --initial-trajectories 2 --test-trajectories 3 --checkpoint-every 1"
TINY = {
    "ct-mle": shlex.split(
        f"{SHARED} --gap 0.125 --waves 10 --evidence-steps 5 --posterior-samples 4 --policy-hidden 16 16"
        " --policy-updates 6 --policy-rounds 2 --particles 8 --critic-steps 2 --critic-batch 16 --chunk 2"
    ),
    "ct-mle, networks": shlex.split(
        f"{SHARED} --model ensemble --gap 0.125 --ensemble 2 --dynamics-hidden 16 16 --policy-hidden 16 16"
        " --dynamics-batch 3 --dynamics-length 3 --dynamics-updates 6 --policy-updates 6 --policy-rounds 2"
        " --particles 8 --critic-steps 2 --critic-batch 16 --chunk 2"
    ),
    "enode": shlex.split(
        f"{SHARED} --agent enode --gap 0.25 --ensemble 2 --dynamics-hidden 16 16 --policy-hidden 16 16"
        " --dynamics-batch 3 --dynamics-updates 8 --matching-updates 4 --matching-batch 4 --policy-updates 8"
        " --exploring-trajectories 1 --particles 8 --critic-steps 2 --critic-batch 16 --chunk 2"
    ),
    "sac-tacos": shlex.split(
        f"{SHARED} --agent sac-tacos --hidden 16 16 --batch 16 --tick 0.25 --max-hold 4 --replay-capacity 200"
        " --updates-per-decision 1 --chunk 4"
    ),
}
"""Every agent, CT-MLE with both of its models, with settings small enough to be killed a hundred times."""


def process(arguments: list[str], folder: Path, fatal_write: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, str(VICTIM), fatal_write, *arguments],
        cwd=folder,
        env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def outcome(run: Path) -> dict[str, object]:
    """All that must be the same."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    metrics = [{key: value for key, value in line.items() if "seconds" not in key} for line in lines]
    return {"metrics": metrics, **{path.name: path.read_bytes() for path in sorted(run.glob("*.safetensors"))}}


def undisturbed(folder: Path, agent: str, name: str = "calm") -> float:
    """Do a run that is left alone, and return its seconds."""
    started = time.monotonic()
    if process(["train", "pendulum", *TINY[agent], "--out", name], folder, NEVER).wait() != 0:
        raise RuntimeError("the undisturbed run failed")
    return time.monotonic() - started


def torment(folder: Path, agent: str, kills: int, seed: int, usual: float) -> dict[str, int]:
    """Runs with `kills` kills in all, each compared with the undisturbed one, which takes `usual` seconds.

    Returns the tally.
    """
    chance = random.Random(seed)
    train, expected = ["train", "pendulum", *TINY[agent], "--out"], outcome(folder / "calm")
    tally = {"kills": 0, "resumes": 0, "finished runs": 0, "losses": 0}
    while tally["kills"] < kills:
        name = f"run{tally['finished runs']}"
        command = [*train, name]
        while True:
            in_write = chance.random() < 0.5 and tally["kills"] < kills
            victim = process(command, folder, str(chance.randint(1, 120)) if in_write else NEVER)
            if not in_write and tally["kills"] < kills:
                try:
                    victim.wait(timeout=chance.uniform(0.0, usual))
                except subprocess.TimeoutExpired:
                    victim.kill()
            code = victim.wait()
            if code == 0:
                break
            if code != -9:
                raise RuntimeError(f"{' '.join(command[:2])} {name} ended with code {code}, not by the kill")
            tally["kills"] += 1
            if (folder / name / "config.json").exists():
                command = ["resume", name]
                tally["resumes"] += 1
        tally["finished runs"] += 1
        tally["losses"] += int(outcome(folder / name) != expected)
    return tally


def attack(kills: int = 80, seed: int = 0) -> Tally:
    """Kill runs of every agent so many times each."""
    tally = Tally()
    for agent in TINY:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            undisturbed(folder, agent)  # compiles; the second one shows how long a run takes
            usual = undisturbed(folder, agent, "calm2")
            found = torment(folder, agent, kills, seed, usual)
            found["losses"] += int(outcome(folder / "calm2") != outcome(folder / "calm"))
        tally.tried += found["kills"]
        tally.failures += [f"{agent}: other bytes"] * found["losses"]
        tally.note += f"{agent} {found['kills']}, {found['finished runs']} finished runs; "
    return tally
