"""A thousand damaged files, from a seeded mutator: each ends in a clear error or a clean fallback."""

import json
import os
import random
import resource
import shutil
import struct
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from test_run import trained
from tiny import run_experiment

from ctmle.lab.cli.main import main
from ctmle.lab.run import Run
from ctmle.lab.session import save_checkpoint
from ctmle.lab.storage import RunFolder
from ctmle.lab.storage.files import digest, read_tensors
from ctmle.lab.storage.run_folder import Checkpoint
from ctmle.lab.storage.trees import save_tree

CHECKPOINTS, CONFIGS = 900, 300
HANGS = 60.0
"""Seconds. No reading of a file comes near it, on any machine."""
MOST_MEMORY = 400_000_000

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
        header["__metadata__"]["ctmle"] = header["__metadata__"]["ctmle"].replace('"schema": 2', '"schema": 99')
    changed = json.dumps(header).encode()
    return struct.pack("<Q", len(changed)) + changed + content[8 + size :]


def change_json(content: bytes, chance: random.Random) -> bytes:
    """One entry changed, lost or added, with the old checksum or, as a stranger might, with a right one."""
    found = json.loads(content)
    agent = found["parts"]["agent"]["settings"]
    part = chance.choice([found, found["system"], found["parts"], agent, agent["learner"]["settings"]])
    name = chance.choice(list(part))
    kind = chance.randrange(4)
    if kind == 0:
        part[name] = chance.choice([None, -1, 1e308, "x", [], {}, True, "../../etc/passwd", [[1]], "[" * 100])
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


BINARY: list[Mutation] = [cut, flip_a_bit, overwrite_a_stretch, append, noise, swap_halves]
TENSORS: list[Mutation] = [*BINARY, declare_a_huge_header, change_header, change_header, change_header]
TEXT: list[Mutation] = [*BINARY, change_json, change_json, change_json, change_json]


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    """A real run with two good checkpoints."""
    folder, _ = trained(run_experiment(out=str(tmp_path_factory.mktemp("sound") / "run")))
    assert len(folder.checkpoints) == 2
    return folder.path


def same_checkpoint(a: Checkpoint, b: Checkpoint) -> bool:
    if (a.records, a.finished) != (b.records, b.finished) or a.arrays.keys() != b.arrays.keys():
        return False
    return all(a.arrays[name].tobytes() == b.arrays[name].tobytes() for name in a.arrays)


def outcome(folder: RunFolder) -> tuple[Checkpoint | None, str]:
    """The checkpoint that is read, or what is said instead."""
    try:
        return folder.read_checkpoint(), ""
    except ValueError as error:
        return None, str(error)


def exit_code(*arguments: str) -> object:
    try:
        main(arguments)
    except SystemExit as stop:
        return stop.code
    return 0


def memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_damaged_checkpoints(sound, tmp_path):
    shutil.copytree(sound, tmp_path / "run")
    folder, chance = RunFolder(tmp_path / "run"), random.Random(0)
    older, newer = folder.checkpoints
    contents = older.read_bytes(), newer.read_bytes()
    new = folder.read_checkpoint()
    newer.unlink()
    old = folder.read_checkpoint()
    before, tally, longest = memory(), Counter(), 0.0
    for number in range(CHECKPOINTS):
        mutation = chance.choice(TENSORS)
        newer.write_bytes(mutation(contents[1], chance))
        if number % 3 == 0:  # no way back: both are damaged
            older.write_bytes(chance.choice(TENSORS)(contents[0], chance))
        started = time.monotonic()
        found, refused = outcome(folder)
        if found is None:
            assert str(folder.path) in refused
            assert "\n" not in refused
            tally["clear errors"] += 1
        elif same_checkpoint(found, new):
            tally["harmless"] += 1
        elif same_checkpoint(found, old) and str(newer) in found.warnings[0]:
            tally["clean fallbacks"] += 1
        else:
            tally["wrong loads"] += 1
        longest = max(longest, time.monotonic() - started)
        older.write_bytes(contents[0])
    print(dict(tally), f"longest {longest:.3f} s, memory grew by {(memory() - before) / 1e6:.0f} MB")
    assert tally["wrong loads"] == 0
    assert tally["clean fallbacks"] > CHECKPOINTS / 3
    assert tally["clear errors"] > CHECKPOINTS / 5
    assert longest < HANGS
    assert memory() - before < MOST_MEMORY


def test_damaged_settings(sound, tmp_path, capsys):
    """Through the front door. A changed setting with a right checksum belongs to no checkpoint of the run."""
    shutil.copytree(sound, tmp_path / "run")
    folder, chance, tally = RunFolder(tmp_path / "run"), random.Random(1), Counter()
    content = folder.config_file.read_bytes()
    experiment, before, longest = folder.read_experiment(), memory(), 0.0
    for _ in range(CONFIGS):
        folder.config_file.write_bytes(chance.choice(TEXT)(content, chance))
        started = time.monotonic()
        code, output = exit_code("resume", str(folder.path)), capsys.readouterr()
        if code == 0:
            assert "nothing to resume" in output.out
            tally["harmless" if folder.read_experiment() == experiment else "wrong loads"] += 1
        else:
            assert code == 2, output
            assert output.err.startswith("ctmle: ")
            assert len(output.err.splitlines()) == 1, output.err
            tally["clear errors"] += 1
        longest = max(longest, time.monotonic() - started)
    with capsys.disabled():
        print(dict(tally), f"longest {longest:.3f} s, memory grew by {(memory() - before) / 1e6:.0f} MB")
    assert tally["wrong loads"] == 0
    assert tally["clear errors"] > 0.9 * CONFIGS
    assert longest < HANGS
    assert memory() - before < MOST_MEMORY


@pytest.mark.parametrize(
    "trick", ["pipe", "folder", "device", "dangling link", "link to itself", "odd names", "another run"]
)
def test_tricks_with_paths(trick, sound, tmp_path):
    shutil.copytree(sound, tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    newer, good = folder.checkpoints[-1], folder.read_checkpoint()
    if trick == "odd names":
        for name in ("zzzzzz.safetensors", "9999999.safetensors", "000009.part", ".safetensors", "-00001.safetensors"):
            (newer.parent / name).write_bytes(b"odd")
        assert same_checkpoint(folder.read_checkpoint(), good)
        return
    newer.unlink()
    if trick == "pipe":
        os.mkfifo(newer)
    elif trick == "folder":
        newer.mkdir()
    elif trick == "device":
        newer.symlink_to("/dev/zero")
    elif trick == "dangling link":
        newer.symlink_to(tmp_path / "nothing")
    elif trick == "link to itself":
        newer.symlink_to(newer)
    else:
        experiment = run_experiment(seed=7, out=str(tmp_path / "other"))
        other = RunFolder.create(experiment)
        save_checkpoint(other, experiment, Run(experiment).init(), [])
        shutil.copy(other.checkpoints[0], newer)
    found = folder.read_checkpoint()
    assert found.path == folder.checkpoints[0]
    assert str(newer) in found.warnings[0]


@pytest.mark.parametrize("change", ["shape", "type", "missing", "extra"])
def test_a_strangers_checkpoint_with_a_right_checksum_must_still_fit(change, sound, tmp_path):
    shutil.copytree(sound, tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    good, run = folder.read_checkpoint(), Run(folder.read_experiment())
    name = next(name for name, array in good.arrays.items() if array.ndim == 3)
    arrays = dict(good.arrays)
    if change == "shape":
        arrays[name] = np.zeros((2**10, 2, 2), np.float32)
    elif change == "type":
        arrays[name] = arrays[name].astype(np.float64)
    elif change == "missing":
        del arrays[name]
    else:
        arrays["extra"] = np.zeros(3)
    with pytest.raises(ValueError, match="does not fit this run"):
        run.restore(Checkpoint(good.path, arrays, good.records, good.finished))


def test_nothing_that_is_loaded_can_run(tmp_path):
    """A pickle in a tensor's place is a damaged file, and its payload never runs."""
    path = tmp_path / "x.safetensors"
    path.write_bytes(b"cos\nsystem\n(S'touch owned'\ntR.")
    with pytest.raises(ValueError, match="not a safetensors file"):
        read_tensors(path)
    assert not (tmp_path / "owned").exists()
    save_tree(path, {"a": np.zeros(2)})
    assert b"pickle" not in path.read_bytes()
