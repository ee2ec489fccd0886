"""Put links into a stranger's folder in the place of every file that is written: nothing that they lead to is touched.

python tests/faults/table.py --only links        (`make faults` runs all classes)
"""

import os
import shutil
import tempfile
from contextlib import chdir
from itertools import product
from pathlib import Path

from commands import run  # pyright: ignore[reportMissingImports]
from mutants import experiment  # pyright: ignore[reportMissingImports]
from tally import Tally  # pyright: ignore[reportMissingImports]

from ctmle.lab.session import Session
from ctmle.lab.storage import RunFolder

TARGET = b"what somebody else wrote"
FILES = ("lock", "metrics.jsonl.part", "metrics.jsonl", "config.json.part", "learning_curve.png.part",
         "finished.json", "learning_curve.png", "policy.safetensors", "critic.safetensors",
         "checkpoints/000099.safetensors")  # fmt: skip
REFUSED = ("lock", "metrics.jsonl", "checkpoints")
"""A link in the place of these is refused; others are replaced, or never written."""


def is_harmless(name: str, kind: str) -> bool:
    """Put a link into a run that is resumed, and tell whether the file that it leads to stays as it was."""
    shutil.copytree("stopped", "run")
    outside, link = Path("outside"), Path("run") / name
    if name == "checkpoints":
        link.rename(outside)
        link.symlink_to(outside.absolute())
        before = sorted(path.name for path in outside.iterdir())
        told = run("resume", "run", seconds=60)
        safe = sorted(path.name for path in outside.iterdir()) == before
        shutil.rmtree(outside)
    else:
        outside.write_bytes(TARGET)
        link.unlink(missing_ok=True)
        link.symlink_to(outside.absolute()) if kind == "symbolic" else os.link(outside, link)
        told = run("resume", "run", seconds=60)
        safe = outside.read_bytes() == TARGET
        outside.unlink()
    shutil.rmtree("run")
    return safe and (told.is_a_sentence if name in REFUSED else told.code == 0)


def sweep_is_harmless(name: str) -> bool:
    """Put a link into a sweep's folder, and tell whether what it leads to stays as it was."""
    Path("sweep").mkdir()
    Path("sweep/sweep.json").write_text("{}")
    Path("plan.toml").write_text("[base]\nenvironment = 'pendulum'\n")
    outside = Path("outside")
    outside.mkdir() if name == "runs" else outside.write_bytes(TARGET)
    Path("sweep", name).unlink(missing_ok=True)
    Path("sweep", name).symlink_to(outside.absolute())
    told = run("sweep", "plan.toml", "--out", "sweep", "--dry-run")
    if name == "lock":
        told = run("sweep", "plan.toml", "--out", "sweep")
    safe = list(outside.iterdir()) == [] if name == "runs" else outside.read_bytes() == TARGET
    shutil.rmtree("sweep")
    shutil.rmtree(outside) if outside.is_dir() else outside.unlink()
    return safe and (told.is_a_sentence or name == "results.csv")


def attack() -> Tally:
    """Try links of both kinds in every place."""
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        Session.begin(experiment(out="stopped", episodes=1, checkpoint_every=1, checkpoints_kept=2)).train()
        RunFolder.open("stopped").checkpoints[-1].unlink()  # so that everything is written once more
        for name, kind in [*product(FILES, ("symbolic", "hard")), ("checkpoints", "symbolic")]:
            tally.add(is_harmless(name, kind), f"{name}: {kind} link")
        for name in ("lock", "runs", "results.csv"):
            tally.add(sweep_is_harmless(name), f"{name} of a sweep")
    return tally
