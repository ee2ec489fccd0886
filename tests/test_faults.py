"""Real kills, real signals, real locks."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tiny import run_config

from ctmle.experiments import Run
from ctmle.storage import RunFolder
from ctmle.storage.files import only_writer

sys.path.insert(0, str(Path(__file__).parent / "faults"))
from kills import NEVER, TINY, outcome, process, torment  # pyright: ignore[reportMissingImports]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """One folder for all, so that they share what is compiled."""
    return tmp_path_factory.mktemp("faults")


def test_a_run_that_is_killed_again_and_again_ends_as_if_it_had_not_been(folder):
    tally = torment(folder, kills=4, seed=1)
    assert tally["kills"] >= 4
    assert tally["losses"] == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_at_a_checkpoint_and_the_run_goes_on(number, folder):
    name = f"signal{number}"
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    command = [sys.executable, "-m", "ctmle", "train", "pendulum", *TINY, "--out", name]
    victim = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
    while not list((folder / name / "checkpoints").glob("*.safetensors")):
        assert victim.poll() is None, "the run ended before its first checkpoint"
        time.sleep(0.01)
    victim.send_signal(number)
    output = victim.communicate(timeout=120)[0]
    assert victim.returncode == 128 + number
    assert f"ctmle resume {name}" in output
    assert process(["resume", name], folder, NEVER).wait() == 0
    assert outcome(folder / name) == outcome(folder / "calm")


def test_a_second_process_on_one_run_is_refused_until_the_first_is_gone(tmp_path):
    holder = "import sys; from pathlib import Path; from ctmle.storage.files import only_writer\n"
    holder += "with only_writer(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    first = subprocess.Popen(
        [sys.executable, "-c", holder, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert first.stdout is not None
    assert first.stdout.readline() == "held\n"
    with pytest.raises(ValueError, match="another process is working on"), only_writer(tmp_path):
        pass
    first.kill()
    first.communicate()
    with only_writer(tmp_path):
        pass


def test_a_refused_process_leaves_the_log_alone(tmp_path):
    config = run_config(out=str(tmp_path / "run"))
    folder, run = RunFolder.create(config), Run(config)
    run.save_checkpoint(folder, run.init(), [])
    folder.metrics_file.write_text("what the first process wrote")
    with only_writer(folder.path), pytest.raises(ValueError, match="another process"):
        run.train(folder, checkpoint=folder.read_checkpoint())
    assert folder.metrics_file.read_text() == "what the first process wrote"
