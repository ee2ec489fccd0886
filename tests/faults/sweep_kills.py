"""Kill drivers and workers of a real sweep again and again: it ends with the same bytes as one that was left alone.

python tests/faults/table.py --only sweep_kills        (`make faults` runs all classes)
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from kills import NEVER, VICTIM, outcome  # pyright: ignore[reportMissingImports]
from tally import Tally  # pyright: ignore[reportMissingImports]

BASE = {"environment": "pendulum", "agent": "sac-tacos", "initial_trajectories": 2, "max_hold": 10, "hidden": [8, 8],
        "batch": 8, "horizon": 4.0, "updates_per_decision": 4.0, "replay_capacity": 64, "chunk": 2, "step": 0.05,
        "episodes": 3, "test_trajectories": 3, "checkpoint_every": 1}  # fmt: skip
SEEDS = 3


def driver(folder: Path, out: str, fatal: str = NEVER) -> subprocess.Popen[bytes]:
    """Start the sweep, in a session of its own; the driver may be killed at an operation on files."""
    command = [sys.executable, str(VICTIM), fatal, "sweep", "plan.json", "--out", out, "--workers", "2"]
    return subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def workers_of(process: subprocess.Popen[bytes]) -> list[int]:
    with suppress(OSError):
        return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
    return []


def outcomes(out: Path) -> dict[str, object]:
    return {path.name: outcome(path) for path in sorted((out / "runs").iterdir())}


def strike(folder: Path, out: str, chance: random.Random, usual: float) -> tuple[int, int]:
    """Run the sweep, and kill its driver or a worker once; return the exit code and the number of kills."""
    kind = chance.choice(["operation", "driver", "worker"])
    process = driver(folder, out, str(chance.randint(1, 60)) if kind == "operation" else NEVER)
    if kind == "operation":
        return process.wait(), 1
    with suppress(subprocess.TimeoutExpired):
        return process.wait(timeout=chance.uniform(0.2, 1.0) * usual), 0
    if kind == "driver":
        process.kill()
        return process.wait(), 1
    victims = workers_of(process)
    for victim in victims[:1]:
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
    return process.wait(), len(victims[:1])


def attack(kills: int = 40, seed: int = 0) -> Tally:
    """Kill so many drivers and workers; every sweep that ends is compared with one that was left alone."""
    tally, chance, sweeps = Tally(), random.Random(seed), 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "plan.json").write_text(json.dumps({"base": BASE, "grid": {"seed": list(range(SEEDS))}}))
        driver(folder, "warm").wait()
        started = time.monotonic()
        if driver(folder, "calm").wait() != 0:
            raise RuntimeError("the undisturbed sweep failed")
        usual, calm = time.monotonic() - started, outcomes(folder / "calm")
        while tally.tried < kills:
            out, sweeps = f"sweep{sweeps}", sweeps + 1
            for _ in range(6):
                code, killed = strike(folder, out, chance, usual)
                tally.tried += killed if code in (0, -signal.SIGKILL) else 0
                if code not in (0, -signal.SIGKILL):
                    tally.failures.append(f"{out}: ended with code {code}")
                if code == 0:
                    break
            if driver(folder, out).wait() != 0 or outcomes(folder / out) != calm:
                tally.failures.append(f"{out}: other bytes")
    tally.note = f"{sweeps} sweeps of {SEEDS} runs"
    return tally
