"""Full and read-only disks under every command, and processes with too little: exit code 1, one sentence, nothing lost.

    python tests/faults/table.py --only disks        (`make faults` runs all classes)

Disks fail by injected errors: at the first write, at each kind of file, and for good.
"""

import errno
import os
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable
from contextlib import chdir
from pathlib import Path

from commands import Answer, run  # pyright: ignore[reportMissingImports]
from mutants import SWEEP, experiment  # pyright: ignore[reportMissingImports]
from strikes import striking  # pyright: ignore[reportMissingImports]
from tally import Tally  # pyright: ignore[reportMissingImports]

from ctmle.lab.session import Session
from ctmle.lab.storage import RunFolder

DISKS = {"full": (errno.ENOSPC, ("write", "fsync", "mkdir")), "read-only": (errno.EROFS, ("open", "mkdir", "rename"))}
WORDS = {"full": "No space left on device", "read-only": "Read-only file system"}
TRAIN = ["train", "pendulum", "--agent", "sac-tacos", "--horizon", "4", "--step", "0.05", "--episodes", "1", "--hidden",
         "8", "8", "--batch", "8", "--replay-capacity", "64", "--updates-per-decision", "0.5", "--initial-trajectories",
         "2", "--max-hold", "10", "--test-trajectories", "3", "--chunk", "4", "--checkpoint-every", "1"]  # fmt: skip
COMMANDS: dict[str, tuple[list[str], str]] = {
    "creation": ([*TRAIN, "--out", "new"], "new"),
    "log": ([*TRAIN, "--out", "new"], "metrics.jsonl"),
    "checkpoint": ([*TRAIN, "--out", "new"], "000002.safetensors"),
    "weights": ([*TRAIN, "--out", "new"], "policy.safetensors"),
    "picture": ([*TRAIN, "--out", "new"], "learning_curve.png"),
    "resume": (["resume", "stopped"], "stopped"),
    "picture of a finished run": (["resume", "run"], "learning_curve.png"),
    "compare": (["compare", "run", "--out", "pictures/x.png"], "pictures"),
    "sweep's folder": (["sweep", "plan.toml", "--out", "fresh"], "fresh"),
    "sweep's table": (["sweep", "plan.toml", "--out", "sweep"], "results.csv"),
    "log of workers": (["sweep", "more.toml", "--out", "sweep"], "workers.log"),
    "exact": (["exact", "hidden-arm", "--episodes", "10", "--seeds", "2", "--out", "exact"], "exact"),
}
"""Commands, and a part of the paths at which their disk fails."""
NOT_WRITTEN = ("log of workers", "full")
"""Opening a log takes no space, and workers write to it by themselves."""


def on_a_bad_disk(disk: str, command: list[str], where: str) -> Answer:
    """Run a command; every operation of the disk's kind on paths with these words fails."""
    number, operations = DISKS[disk]

    def strike(operation: str, path: str) -> None:
        if operation in operations and where in path.removeprefix(os.path.realpath(".")):
            raise OSError(number, os.strerror(number), path)

    with striking(Path("."), strike):
        return run(*command, seconds=120)


def is_told(told: Answer, disk: str) -> bool:
    """Tell whether a command said in one sentence which path could not be written, and ended with code 1."""
    return told.code == 1 and told.is_a_sentence and WORDS[disk] in told.err


def prepare(sweep: bool) -> None:
    """Make a finished run, a stopped one, and perhaps a sweep that is finished."""
    Session.begin(experiment(out="run", episodes=1, checkpoint_every=1)).train()
    shutil.copytree("run", "stopped")
    RunFolder.open("stopped").checkpoints[-1].unlink()
    Path("plan.toml").write_text(SWEEP.replace("episodes = 2", "episodes = 1") + "[grid]\nseed = [0]\n")
    Path("more.toml").write_text(SWEEP.replace("episodes = 2", "episodes = 1") + "[grid]\nseed = [0, 1]\n")
    if sweep:
        told = run("sweep", "plan.toml", "--out", "sweep", "--workers", "1", seconds=300)
        assert told.code == 0, told


def surroundings() -> dict[str, Callable[[], bool]]:
    """List processes that have too little of something, or a variable that asks for too much."""
    python = [sys.executable, "-m", "ctmle"]
    own = {**os.environ, "XDG_CACHE_HOME": str(Path("cache").absolute())}

    def sentence(words: str, command: list[str], **variables: str) -> bool:
        done = subprocess.run(command, env={**own, **variables}, capture_output=True, text=True, check=False)
        return done.returncode == 1 and words in done.stderr and len(done.stderr.splitlines()) == 1

    def works(name: str, command: list[str], environment: dict[str, str]) -> bool:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return done.returncode == 0 and done.stderr == "" and RunFolder.open(name).finished

    def without_end() -> bool:
        """Cut every program of the cache: the next run removes them, writes them again, and warns of nothing."""
        programs = list(Path("cache/ctmle/jax").glob("*-cache"))
        for program in programs:
            program.write_bytes(program.read_bytes()[:40])
        train = [*python, *TRAIN, "--out", "rebuilt"]
        no_dir = {name: value for name, value in own.items() if name != "JAX_COMPILATION_CACHE_DIR"}
        return works("rebuilt", train, no_dir) and all(zlib.decompress(p.read_bytes()) for p in programs if p.exists())

    limited = ["sh", "-c", f"ulimit -v 1000000; exec {' '.join(python)} {' '.join(TRAIN)} --out limited"]
    no_home = {name: value for name, value in own.items() if name != "HOME"} | {"XDG_CACHE_HOME": ""}
    no_dir = {name: value for name, value in own.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    return {
        "little memory": lambda: sentence("ulimit -v", limited),
        "a platform that is not there": lambda: sentence("JAX_PLATFORMS", [*python, *TRAIN], JAX_PLATFORMS="cuda"),
        "a platform that nobody knows": lambda: sentence("JAX_PLATFORMS", [*python, *TRAIN], JAX_PLATFORMS="abacus"),
        "JAX_DEBUG_NANS": lambda: sentence("JAX_DEBUG_NANS", [*python, *TRAIN], JAX_DEBUG_NANS="1"),
        "a cache": lambda: works("cached", [*python, *TRAIN, "--out", "cached"], no_dir),
        "a cache whose programs have no end": without_end,
        "no HOME, no cache": lambda: works("homeless", [*python, *TRAIN, "--out", "homeless"], no_home),
    }


def attack(names: Iterable[str] = tuple(COMMANDS), *, processes: bool = True) -> Tally:
    """Try commands on every disk, and every process."""
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        prepare(sweep=processes)
        for name in names:
            command, where = COMMANDS[name]
            for disk in DISKS:
                if (name, disk) == NOT_WRITTEN:
                    continue
                told = on_a_bad_disk(disk, command, where)
                kept = RunFolder.open("new").read_results() if Path("new/config.json").exists() else ()
                whole = len(list(kept)) <= 1
                tally.add(is_told(told, disk) and whole, f"{name} on a {disk} disk: {told}")
                for new in ("new", "fresh", "exact"):
                    shutil.rmtree(new, ignore_errors=True)
        assert RunFolder.open("run").finished
        for name, survives in surroundings().items() if processes else ():
            tally.add(survives(), name)
    return tally
