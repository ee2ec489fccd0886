"""Real kills, real signals, real locks."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tiny import run_experiment

import ctmle.lab.cli.train  # noqa: F401 - nothing is imported any more once privileges are gone
from ctmle.lab.cli.main import main
from ctmle.lab.run import Run
from ctmle.lab.session import Session, save_checkpoint
from ctmle.lab.storage import RunFolder
from ctmle.lab.storage.files import PART, only_writer

sys.path.insert(0, str(Path(__file__).parent / "faults"))
from kills import NEVER, TINY, outcome, process, torment, undisturbed  # pyright: ignore[reportMissingImports]
from strikes import striking  # pyright: ignore[reportMissingImports]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """One folder for all, so that they share what is compiled."""
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="module")
def usual(folder) -> float:
    """Seconds of a run that was left alone, `calm`."""
    return undisturbed(folder, "ct-mle")


@pytest.fixture(scope="module")
def calm(folder, usual) -> Path:
    return folder / "calm"


def test_a_run_that_is_killed_again_and_again_ends_as_if_it_had_not_been(folder, usual):
    """With this seed: soon after the start, while a checkpoint is written, while the log is. `make faults` does so a
    hundred times, and to every agent."""
    tally = torment(folder, "ct-mle", kills=3, seed=208655, usual=usual)
    assert tally["kills"] >= 3
    assert tally["losses"] == 0


def stopped_by(number: signal.Signals, name: str, folder: Path) -> str:
    """Send a signal to a run after its first checkpoint. Returns what it prints."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    command = [sys.executable, "-m", "ctmle", "train", "pendulum", *TINY["ct-mle"], "--out", name]
    victim = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
    while not list((folder / name / "checkpoints").glob("*.safetensors")):
        assert victim.poll() is None, "the run ended before its first checkpoint"
        time.sleep(0.01)
    victim.send_signal(number)
    output = victim.communicate(timeout=120)[0]
    assert victim.returncode == 128 + number
    return output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_at_a_checkpoint_that_can_be_resumed(number, folder):
    name = f"signal{number}"
    assert f"ctmle resume {name}" in stopped_by(number, name, folder)
    assert not RunFolder.open(folder / name).read_checkpoint().finished


def test_a_run_that_a_signal_stopped_ends_as_if_it_had_not_been(folder, calm):
    name = f"signal{signal.SIGINT}"
    assert (folder / name).exists() or stopped_by(signal.SIGINT, name, folder)
    assert process(["resume", name], folder, NEVER).wait() == 0
    assert outcome(folder / name) == outcome(calm)


def test_a_reader_that_has_seen_enough_and_no_home_do_not_end_a_run(folder, calm):
    """`ctmle train ... | head -1`, by a user without a home, as in a container."""
    environment = {**os.environ, "XDG_CACHE_HOME": "", "HOME": "/nonexistent"}
    command = [sys.executable, "-m", "ctmle", "train", "pendulum", *TINY["ct-mle"], "--out", "unread"]
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        run.stdout.readline()
        run.stdout.close()
        assert run.stderr.read() == b""
        assert run.wait() == 0
    assert outcome(folder / "unread") == outcome(calm)


def test_a_second_process_on_one_run_is_refused_until_the_first_is_gone(tmp_path):
    holder = "import sys; from pathlib import Path; from ctmle.lab.storage.files import PART, only_writer\n"
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
    experiment = run_experiment(out=str(tmp_path / "run"))
    folder, run = RunFolder.create(experiment), Run(experiment)
    save_checkpoint(folder, experiment, run.init(), folder.continue_log())
    folder.metrics_file.write_text("what the first process wrote")
    with only_writer(folder.path), pytest.raises(ValueError, match="another process"):
        Session.resume(folder.path).train()
    assert folder.metrics_file.read_text() == "what the first process wrote"


TINY_RUN = ["train", "pendulum", *TINY["ct-mle"], "--out", "run"]


def give_up_privileges() -> None:
    """Permissions bind the superuser only if he lays his powers down."""
    if os.geteuid() == 0:
        os.seteuid(65534)


@pytest.fixture
def privileges() -> Iterator[None]:
    """Given back after the test."""
    user = os.geteuid()
    yield
    os.seteuid(user)


def exit_code(*arguments: str) -> object:
    try:
        main(arguments)
    except SystemExit as stop:
        return stop.code
    return 0


@pytest.fixture
def workplace(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    tmp_path.chmod(0o777)
    return tmp_path


def no_space(path: str) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


def no_permission(path: str) -> None:
    Path(path).parent.chmod(0o555)
    give_up_privileges()


FAULTS = {"No space left on device": ("write", no_space), "Permission denied": ("open", no_permission)}


@pytest.mark.parametrize("reason", list(FAULTS))
def test_a_disk_that_cannot_be_written_stops_the_run_which_then_goes_on(reason, workplace, privileges, capsys):
    when, break_it = FAULTS[reason]

    def strike(operation: str, path: str) -> None:
        if operation == when and "000004.safetensors" in path:
            break_it(path)

    user = os.geteuid()
    with striking(workplace, strike):
        assert exit_code(*TINY_RUN) == 1
    os.seteuid(user)
    said = capsys.readouterr().err
    assert f"cannot write to run ({reason})" in said
    assert "ctmle resume run" in said
    assert len(said.splitlines()) == 1
    Path("run/checkpoints").chmod(0o777)
    before = RunFolder.open("run").read_checkpoint()
    assert before.path.name == "000003.safetensors"
    assert exit_code("resume", "run") == 0
    assert len(RunFolder.open("run").read_metrics()) == 2
    assert list(Path("run").rglob(f"*{PART}")) == []


def test_a_run_folder_that_is_deleted_or_replaced_in_mid_run(workplace, capsys):
    """The run stops; what it saved stays where the folder is now, and nothing is written to the new one."""
    for replace in (False, True):

        def strike(operation: str, path: str, replace: bool = replace) -> None:
            if operation == "mkdir" or "000002.safetensors" not in path:
                return
            if replace and not Path("moved").exists():
                Path("run").rename("moved")
                shutil.copytree("moved", "run")
            elif not replace:
                shutil.rmtree("run")

        with striking(workplace, strike):
            assert exit_code(*TINY_RUN) == 1
        said = capsys.readouterr().err
        if replace:
            assert "was moved or replaced while this process was working in it" in said
            assert [len(list(Path(name, "checkpoints").iterdir())) for name in ("run", "moved")] == [1, 1]
            assert exit_code("resume", "moved") == 0
        else:
            assert "run was deleted while the run was going on" in said
            assert not Path("run").exists()


def test_a_folder_that_cannot_be_made(workplace, tmp_path_factory, privileges, capsys):
    occupied = tmp_path_factory.mktemp("occupied")
    (occupied / "file").touch()
    assert exit_code(*TINY_RUN[:-1], str(occupied)) == 2  # imports everything while it may be read
    capsys.readouterr()
    workplace.chmod(0o555)
    user = os.geteuid()
    give_up_privileges()
    assert exit_code(*TINY_RUN) == 1
    os.seteuid(user)
    said = capsys.readouterr().err
    assert said.startswith("ctmle: run: Permission denied")
    assert len(said.splitlines()) == 1
    assert list(workplace.iterdir()) == []


def test_a_second_signal_stops_at_once_and_loses_at_most_the_stage(folder):
    """The first asks; the second, while a long stage still runs, does not wait for it."""
    long_stage = [*TINY["ct-mle"], "--policy-updates", "100000000", "--chunk", "100000000"]
    victim = process(["train", "pendulum", *long_stage, "--out", "second"], folder, NEVER)
    # One from before the model is fitted, one from before the policy is improved.
    while len(list((folder / "second" / "checkpoints").glob("*.safetensors"))) < 2:
        assert victim.poll() is None
        time.sleep(0.01)
    time.sleep(1.0)
    victim.send_signal(signal.SIGINT)
    time.sleep(1.0)
    assert victim.poll() is None, "the first signal waits for the end of the piece of work"
    victim.send_signal(signal.SIGINT)
    assert victim.wait(timeout=60) == 128 + signal.SIGINT
    assert RunFolder.open(folder / "second").read_checkpoint().log.records == 0
