"""Damage every file that is read, by a seeded mutator: each time a sentence, a clean fallback, or the same result.

    python tests/faults/table.py --only mutants        (`make faults` runs all classes)

No traceback, no hang, no wrong load, and no more memory than for sound files.
"""

import json
import os
import random
import shutil
import struct
import tempfile
import time
from collections.abc import Callable
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

from commands import Answer, memory, run  # pyright: ignore[reportMissingImports]
from tally import Tally  # pyright: ignore[reportMissingImports]

from ctmle.lab.experiment import Experiment, from_settings
from ctmle.lab.run import Run
from ctmle.lab.session import Session
from ctmle.lab.storage import RunFolder
from ctmle.lab.storage.files import PART, digest
from ctmle.lab.storage.run_folder import Checkpoint
from ctmle.lab.sweeps.plan import Plan

MOST_MEMORY = 400_000_000
"""Bytes that all mutants together may add to what the process has taken."""

TINY = {"agent": "sac-tacos", "initial_trajectories": 2, "max_hold": 10, "hidden": (8, 8), "batch": 8, "horizon": 4.0,
        "updates_per_decision": 0.5, "replay_capacity": 64, "chunk": 4, "step": 0.05, "episodes": 2,
        "test_trajectories": 3}  # fmt: skip

SWEEP = "[base]\n" + "".join(
    f"{name} = {json.dumps(list(value) if isinstance(value, tuple) else value)}\n" for name, value in TINY.items()
)

Mutation = Callable[[bytes, random.Random], bytes]


def cut(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randrange(len(content))]


def flip_a_bit(content: bytes, chance: random.Random) -> bytes:
    changed = bytearray(content)
    changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def overwrite_a_stretch(content: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(content))
    return content[:start] + chance.randbytes(chance.randrange(1, 200)) + content[start + 100 :]


def append(content: bytes, chance: random.Random) -> bytes:
    return content + chance.randbytes(chance.randrange(1, 500))


def noise(content: bytes, chance: random.Random) -> bytes:
    return chance.randbytes(chance.randrange(0, 2000))


def swap_halves(content: bytes, chance: random.Random) -> bytes:
    middle = chance.randrange(1, len(content))
    return content[middle:] + content[:middle]


def declare_a_huge_header(content: bytes, chance: random.Random) -> bytes:
    return struct.pack("<Q", chance.choice([2**63, 2**40, 2**31, len(content) + 1, 99_999_999])) + content[8:]


def change_header(content: bytes, chance: random.Random) -> bytes:
    """Another type, shape, place or name of one tensor, or none of them."""
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + size])
    name = chance.choice([key for key in header if key != "__metadata__"])
    kind = chance.randrange(7)
    if kind == 0:
        header[name]["dtype"] = chance.choice(["F64", "I8", "BF16", "U64", "pickle", "", "O"])
    elif kind == 1:
        header[name]["shape"] = chance.choice([[2**40], [2**62, 2**62], [-1], [0], ["a"], [1] * 100, [1e300]])
    elif kind == 2:
        header[name]["data_offsets"] = chance.choice([[0, 2**60], [-8, 0], [10, 5], [0, 0], ["0", "4"]])
    elif kind == 3:
        header[chance.choice(["../../etc/passwd", "/tmp/x", "__import__('os')", "", "\0"])] = header.pop(name)
    elif kind == 4:
        del header[name]
    elif kind == 5:
        header["__metadata__"] = chance.choice([{}, {"ctmle": "{}"}, {"ctmle": "[" * 100_000}, {"ctmle": "null"}, 3])
    else:
        about = header["__metadata__"]["ctmle"]
        old, new = chance.choice([('"schema": 3', '"schema": 99'), ("true", "false"), ('"size": ', '"size": 1')])
        header["__metadata__"]["ctmle"] = about.replace(old, new)
    changed = json.dumps(header).encode()
    return struct.pack("<Q", len(changed)) + changed + content[8 + size :]


ODD = (None, -1, 1e308, "x", [], {}, True, "../../etc/passwd", [[1]], "[" * 100, 10**30, "\x1b[31m", "nan")
"""Values in the place of others."""


def change_json(content: bytes, chance: random.Random) -> bytes:
    """One entry changed, lost or added, with the old checksum or, as a stranger might, with a right one."""
    found = json.loads(content)
    inner = [part for part in found.values() if isinstance(part, dict) and part]
    deeper = [part for outer in inner for part in outer.values() if isinstance(part, dict) and part]
    part = chance.choice([found, *inner, *deeper])
    name = chance.choice(list(part))
    kind = chance.randrange(4)
    if kind == 0:
        part[name] = chance.choice(ODD)
    elif kind == 1:
        del part[name]
    elif kind == 2:
        part[chance.choice(["__class__", "colour", "", "learner.ensemble"])] = 1
    else:
        found["schema"] = chance.choice([0, 1, 99, -1, "2", None, True, 1e9])
    if chance.random() < 0.7:
        found.pop("checksum", None)
        found["checksum"] = digest(found)
    return json.dumps(found).encode()


def change_a_line(content: bytes, chance: random.Random) -> bytes:
    """A record with one entry changed or lost, twice, in another order, or of something else; NaN and inf."""
    lines = content.splitlines(keepends=True)
    place = chance.randrange(len(lines))
    record = json.loads(lines[place])
    name = chance.choice(list(record))
    kind = chance.randrange(6)
    if kind == 0:
        record[name] = chance.choice([*ODD, float("nan"), float("inf"), 0.99])
    elif kind == 1:
        del record[name]
    elif kind == 2:
        return b"".join([*lines[:place], lines[place], *lines[place:]])
    elif kind == 3:
        return b"".join(reversed(lines)) if len(set(lines)) > 1 else b""
    elif kind == 4:
        return b"".join(lines) + chance.choice([b"null\n", b"{}\n", b"[" * 9_000 + b"\n", b"\0\n", b"x" * 2_000_000])
    else:
        record["score"] = 0.5 + chance.random()
    return b"".join([*lines[:place], json.dumps(record).encode() + b"\n", *lines[place + 1 :]])


def change_a_setting(content: bytes, chance: random.Random) -> bytes:
    """A file of settings with a line lost, twice, in another table, or with another value."""
    lines = content.decode().splitlines()
    place = chance.randrange(len(lines))
    odd = chance.choice(["[]", "{}", "nan", "-1", "'x'", "1e999", "[[1]]", "true", "{ low = 2, high = 1 }", "[1, 2]"])
    name = lines[place].partition("=")[0]
    new = chance.choice(["", lines[place], "[grid]", "[[runs]]", "[random]", f"{name}= {odd}", f"colour = {odd}"])
    return "\n".join([*lines[:place], new, *lines[place + chance.randrange(2) :]]).encode()


BINARY: list[Mutation] = [cut, flip_a_bit, overwrite_a_stretch, append, noise, swap_halves]
TENSORS: list[Mutation] = [*BINARY, declare_a_huge_header, change_header, change_header, change_header]
JSON: list[Mutation] = [*BINARY, change_json, change_json, change_json, change_json]
LINES: list[Mutation] = [*BINARY, *[change_a_line] * 6]
SETTINGS: list[Mutation] = [*BINARY, *[change_a_setting] * 4]


@dataclass(frozen=True)
class Sound:
    """A real run and a real sweep in the current folder, and what is read from them."""

    folder: RunFolder
    job: Run
    newer: Checkpoint
    older: Checkpoint
    scores: str
    """Output of `compare`."""
    dropped: str
    """Output of `compare` for the run whose checkpoints were dropped."""
    score: str
    """Output of `evaluate`."""
    table: bytes
    """The sweep's results.csv."""


def experiment(**options: object) -> Experiment:
    return from_settings({"environment": "pendulum", **TINY, **options})


def make_sound() -> Sound:
    """Train a run, and a sweep that has it and another one."""
    Path("sweep.toml").write_text(SWEEP + "[grid]\nseed = [0, 1]\n")
    for number, planned in enumerate(Plan.of(experiment(seed=seed) for seed in (0, 1)).runs):
        Session.begin(from_settings({**planned.settings, "out": f"sweep/runs/{planned.name}"})).train()
        if number == 0:
            shutil.copytree(f"sweep/runs/{planned.name}", "run")
        else:
            RunFolder.open(f"sweep/runs/{planned.name}").drop_checkpoints()
    Path("sweep/sweep.json").write_text("{}")
    told = run("sweep", "sweep.toml", "--out", "sweep")
    assert told.code == 0, told
    folder = RunFolder.open("run")
    job = Run(folder.read_experiment())
    newer, aside = folder.read_checkpoint(job.fits), Path("newer")
    newer.path.rename(aside)
    older = folder.read_checkpoint(job.fits)
    aside.rename(newer.path)
    scores, score = run("compare", "run", "--json", seconds=60), run("evaluate", "run", "--json", seconds=60)
    (other,) = Path("sweep/runs").glob("*/finished.json")
    dropped = run("compare", str(other.parent), "--json", seconds=60)
    assert scores.code == dropped.code == 0, scores
    assert score.code == 0, score
    return Sound(folder, job, newer, older, scores.out, dropped.out, score.out, Path("sweep/results.csv").read_bytes())


def same(a: Checkpoint, b: Checkpoint) -> bool:
    if (a.log, a.finished) != (b.log, b.finished) or a.arrays.keys() != b.arrays.keys():
        return False
    return all(a.arrays[name].tobytes() == b.arrays[name].tobytes() for name in a.arrays)


def checkpoints(sound: Sound, chance: random.Random) -> bool:
    """Damage the newest checkpoint, or both."""
    both = chance.random() < 0.3
    for path in (sound.newer.path, sound.older.path)[: 1 + both]:
        path.write_bytes(chance.choice(TENSORS)(path.read_bytes(), chance))
    try:
        found = sound.folder.read_checkpoint(sound.job.fits)
    except ValueError as error:
        return both and str(sound.folder.path) in str(error) and "\n" not in str(error)
    return same(found, sound.newer) or (same(found, sound.older) and str(sound.newer.path) in found.warnings[0])


def config(sound: Sound, chance: random.Random) -> bool:
    """Damage config.json: a changed setting with a right checksum belongs to no checkpoint of the run."""
    path = sound.folder.config_file
    path.write_bytes(chance.choice(JSON)(path.read_bytes(), chance))
    told = run("resume", "run")
    harmless = told.code == 0 and "nothing to resume" in told.out
    return told.is_a_sentence or (harmless and sound.folder.read_experiment() == sound.job.experiment)


def refused_or(told: Answer, expected: str) -> bool:
    return told.is_a_sentence or (told.code == 0 and told.out == expected)


def log(sound: Sound, chance: random.Random) -> bool:
    """Damage metrics.jsonl: scores that were edited are noticed, and what is behind the run's mark is ignored."""
    path = sound.folder.metrics_file
    path.write_bytes(chance.choice(LINES)(path.read_bytes(), chance))
    if not refused_or(run("compare", "run", "--json"), sound.scores):
        return False
    command = chance.choice(["evaluate", "resume"]) if chance.random() < 0.2 else ""
    told = run(command, "run", *(["--json"] if command == "evaluate" else [])) if command else None
    return told is None or told.is_a_sentence or (told.code == 0 and (command == "resume" or told.out == sound.score))


def lock(sound: Sound, chance: random.Random) -> bool:
    """Put something else in the place of the lock."""
    path = sound.folder.path / "lock"
    path.unlink(missing_ok=True)
    kind = chance.randrange(5)
    if kind == 0:
        path.write_bytes(chance.randbytes(chance.randrange(5000)))
    elif kind == 1:
        path.mkdir()
    elif kind == 2:
        os.mkfifo(path)
    elif kind == 3:
        path.symlink_to(chance.choice(["/dev/zero", "nowhere", "lock", "/etc/passwd"]))
    else:
        os.link(sound.folder.config_file, path)
    sound.newer.path.unlink()  # so that there is something to resume
    told = run("resume", "run", seconds=60)
    return told.is_a_sentence or (told.code == 0 and sound.folder.finished)


def half_written(sound: Sound, chance: random.Random) -> bool:
    """Leave half-written files and folders of killed writers, and links with their names."""
    place = chance.choice([sound.folder.path, sound.folder.path / "checkpoints"])
    path, kind = (
        place / f".{chance.choice(['metrics.jsonl', 'x', '000009'])}-{chance.randrange(99)}{PART}",
        chance.random(),
    )
    if kind < 0.5:
        path.write_bytes(chance.randbytes(chance.randrange(3000)))
    elif kind < 0.75:
        path.symlink_to(sound.folder.config_file.absolute())
    else:
        path.mkdir()
        (path / "verdict.md").write_bytes(b"half")
    sound.newer.path.unlink()
    told = run("resume", "run", seconds=60)
    return told.code == 0 and sound.folder.finished and not os.path.lexists(path)


def ends(sound: Sound, chance: random.Random) -> bool:
    """Damage finished.json, which is left of dropped checkpoints, or the log of that run."""
    (path,) = Path("sweep/runs").glob("*/finished.json")
    target = path if chance.random() < 0.6 else path.with_name("metrics.jsonl")
    target.write_bytes(chance.choice(JSON if target == path else LINES)(target.read_bytes(), chance))
    return refused_or(run("compare", str(path.parent), "--json"), sound.dropped)


def plans(sound: Sound, chance: random.Random) -> bool:
    """Damage a file of a sweep, or of settings."""
    Path("plan.toml").write_bytes(chance.choice(SETTINGS)(Path("sweep.toml").read_bytes(), chance))
    told = run("sweep", "plan.toml", "--dry-run", "--out", "nowhere")
    return (told.is_a_sentence and told.code == 2) or (told.code == 0 and "to do" in told.out)


def tables(sound: Sound, chance: random.Random) -> bool:
    """Damage results.csv or sweep.json: they are written anew, from the folders of the runs."""
    path = Path("sweep") / chance.choice(["results.csv", "sweep.json"])
    path.write_bytes(chance.choice(BINARY)(path.read_bytes(), chance))
    told = run("sweep", "sweep.toml", "--out", "sweep")
    return told.code == 0 and Path("sweep/results.csv").read_bytes() == sound.table


KINDS: dict[Callable[[Sound, random.Random], bool], float] = {
    checkpoints: 0.3, config: 0.18, log: 0.2, lock: 0.04, half_written: 0.04, ends: 0.08, plans: 0.1, tables: 0.06,
}  # fmt: skip
"""Files to damage, and their shares of all mutants."""


def attack(mutants: int = 3000, seed: int = 0) -> Tally:
    """Make so many mutants, each from the sound files."""
    tally, longest, chance = Tally(), 0.0, random.Random(seed)
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        sound = make_sound()
        for name in ("run", "sweep"):
            shutil.copytree(name, f"{name}.sound")
        before = memory()
        for kind, share in KINDS.items():
            for number in range(round(share * mutants)):
                started = time.monotonic()
                survived = kind(sound, chance)
                longest = max(longest, time.monotonic() - started)
                tally.add(survived, f"{kind.__name__} {number}")
                for name in ("run", "sweep"):
                    _restore(Path(f"{name}.sound"), Path(name))
        grown = memory() - before
    tally.note = f"longest {longest:.1f} s, memory grew by {grown / 1e6:.0f} MB"
    if grown > MOST_MEMORY:
        tally.failures.append(f"memory grew by {grown} bytes")
    return tally


def _restore(sound: Path, damaged: Path) -> None:
    """Make a folder as it was; files that are as they were stay."""
    there = {path.relative_to(sound): path for path in sound.rglob("*")}
    for path in sorted(damaged.rglob("*"), reverse=True):
        like = there.get(path.relative_to(damaged))
        if like is None or path.is_symlink() or path.is_dir() != like.is_dir() or not (path.is_dir() or path.is_file()):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    for name, path in there.items():
        target = damaged / name
        if path.is_dir():
            target.mkdir(exist_ok=True)
        elif not target.exists() or target.stat().st_nlink > 1 or target.read_bytes() != path.read_bytes():
            target.unlink(missing_ok=True)
            shutil.copy(path, target)
