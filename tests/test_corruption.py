"""Checkpoints that are no files, of other runs, or of strangers. `tests/faults/mutants.py` damages files."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from mutants import same  # pyright: ignore[reportMissingImports]
from test_run import trained
from tiny import run_experiment

from ctmle.lab.run import Run
from ctmle.lab.session import save_checkpoint
from ctmle.lab.storage import RunFolder
from ctmle.lab.storage.run_folder import Checkpoint
from ctmle.lab.storage.tensors import read_tensors
from ctmle.lab.storage.trees import save_tree


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    """A real run with two good checkpoints."""
    folder, _ = trained(run_experiment(out=str(tmp_path_factory.mktemp("sound") / "run")))
    assert len(folder.checkpoints) == 2
    return folder.path


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
        assert same(folder.read_checkpoint(), good)
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
        save_checkpoint(other, experiment, Run(experiment).init(), other.continue_log())
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
        run.restore(Checkpoint(good.path, arrays, good.log, good.finished))


def test_nothing_that_is_loaded_can_run(tmp_path):
    """A pickle in a tensor's place is a damaged file, and its payload never runs."""
    path = tmp_path / "x.safetensors"
    path.write_bytes(b"cos\nsystem\n(S'touch owned'\ntR.")
    with pytest.raises(ValueError, match="not a safetensors file"):
        read_tensors(path)
    assert not (tmp_path / "owned").exists()
    save_tree(path, {"a": np.zeros(2)})
    assert b"pickle" not in path.read_bytes()
