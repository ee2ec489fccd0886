"""Nothing outside a run folder is touched, no two runs share one, and nothing that makes no sense is learned from."""

import importlib
import inspect
import json
import os
import shutil
import signal
import subprocess
import sys
from io import StringIO
from pathlib import Path
from threading import Thread

import disks  # pyright: ignore[reportMissingImports]
import io_errors  # pyright: ignore[reportMissingImports]
import links  # pyright: ignore[reportMissingImports]
import mutants  # pyright: ignore[reportMissingImports]
import pytest
import starts  # pyright: ignore[reportMissingImports]
import table  # pyright: ignore[reportMissingImports]
from rich.console import Console
from test_faults import exit_code
from tiny import run_experiment

from ctmle.lab.interrupt import Interrupt
from ctmle.lab.report import say
from ctmle.lab.report.comparison import Curve, Panel, comparison_table
from ctmle.lab.report.results import markdown, text_table
from ctmle.lab.session import Session
from ctmle.lab.storage import RunFolder

FAULTS = Path(__file__).parent / "faults"


def test_every_operation_of_the_storage_layer_may_fail_and_nothing_is_lost():
    """Every seventh here, all of them in `make faults`."""
    assert io_errors.attack(every=7).failures == []


def attack_alone(call: str) -> str:
    """Run an attack in a process of its own, where types are not checked at every call; return what it printed."""
    command = f"import {call.partition('.')[0]}; found = {call}; print(found); assert found.failures == []"
    done = subprocess.run([sys.executable, "-c", command], cwd=FAULTS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_nonsense_is_refused_by_the_name_of_its_entry_or_learned_from_rightly():
    """Here, types are checked before an agent sees them."""
    assert "tried=339" in attack_alone("observes.attack()")


def test_a_link_in_a_strangers_folder_leads_to_no_harm():
    assert links.attack().failures == []


def test_damaged_files_end_in_a_sentence_a_fallback_or_the_same_result():
    """A hundred and fifty here, three thousand in `make faults`."""
    tally = mutants.attack(150, seed=1)
    assert tally.failures == []
    assert tally.tried >= 145


def test_bad_disks_are_answered_in_a_sentence():
    """Four commands here, all of them in `make faults`."""
    assert disks.attack(["creation", "picture", "compare", "sweep's folder"], processes=False).failures == []


def test_a_long_log_is_read_quickly_and_in_little_memory():
    """Two thousand episodes here, a million in `make faults`."""
    attack_alone("long_logs.attack(episodes=2000)")


def test_findings_are_the_old_ones_or_the_new_ones():
    """One in forty operations here, all of them in `make faults`; the process forks."""
    attack_alone("findings_kills.attack(every=40)")


def test_every_attack_class_of_the_table_has_a_module():
    for attack in table.ATTACKS:
        parameters = inspect.signature(importlib.import_module(attack.module).attack).parameters
        assert attack.options.keys() <= parameters.keys()


@pytest.fixture(scope="module")
def stopped(tmp_path_factory) -> Path:
    """A run that has nothing left to do but its last test: every file is written once more."""
    folder = tmp_path_factory.mktemp("stopped") / "run"
    Session.begin(run_experiment(out=str(folder), episodes=1, checkpoint_every=1, checkpoints_kept=2)).train()
    RunFolder.open(folder).checkpoints[-1].unlink()
    return folder


TARGET = b"what somebody else wrote"


def test_simultaneous_starts_never_share_a_folder(tmp_path, monkeypatch):
    """Ten at once for one name and ten for the default name, twice. `make faults` starts two hundred."""
    assert starts.attack(rounds=2).failures == []


def odd_files(folder: Path) -> dict[str, Path]:
    """Return files that have no end, or that nobody wrote."""
    os.mkfifo(folder / "pipe")
    with (folder / "giant").open("wb") as giant:
        giant.truncate(10**12)
    return {"pipe": folder / "pipe", "device": Path("/dev/zero"), "sparse giant": folder / "giant", "folder": folder}


@pytest.mark.parametrize("name", ["config.json", "metrics.jsonl"])
@pytest.mark.parametrize("kind", ["pipe", "device", "sparse giant", "folder"])
def test_files_without_an_end_are_refused_at_once(name, kind, stopped, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(stopped, "run")
    Path("run", name).unlink()
    Path("run", name).symlink_to(odd_files(tmp_path)[kind])
    assert exit_code("compare", "run") == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("kind", ["pipe", "device", "sparse giant", "folder"])
def test_files_of_settings_without_an_end_are_refused_at_once(kind, tmp_path, capsys):
    (tmp_path / "settings.toml").symlink_to(odd_files(tmp_path)[kind])
    assert exit_code("train", "pendulum", "--config", str(tmp_path / "settings.toml")) == 2
    assert exit_code("sweep", str(tmp_path / "settings.toml")) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2


LINES = ("null", "3", "[]", '{"episode": 1}', '{"episode": 1, "score": NaN, "success": true}', "{" * 10_000, "\0", "x",
         '{"episode": "1", "score": 0.5, "score_se": 0.1, "success": true, "looks": 3}',
         '{"episode": 1, "score": 1e999, "score_se": 0.1, "success": 1, "looks": 3}')  # fmt: skip


@pytest.mark.parametrize("line", LINES)
def test_forged_logs_are_refused_in_a_sentence(line, stopped, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(stopped, "run")
    Path("run/metrics.jsonl").write_text(line + "\n")
    assert exit_code("compare", "run") == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_hang_up_is_treated_as_a_request_to_stop_unless_it_is_ignored():
    before = signal.getsignal(signal.SIGHUP)
    try:
        for ignored in (False, True):
            signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
            with Interrupt() as asked:
                os.kill(os.getpid(), signal.SIGHUP)
            assert asked.received == (None if ignored else signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_runs_can_be_trained_outside_of_the_main_thread():
    found = []
    worker = Thread(target=lambda: found.append(Interrupt().__enter__().received))
    worker.start()
    worker.join()
    assert found == [None]


def test_an_edited_score_is_noticed(stopped, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(stopped, "run")
    assert exit_code("resume", "run") == 0
    assert exit_code("compare", "run") == 0
    log = Path("run/metrics.jsonl")
    record = json.loads(log.read_text())
    log.write_text(json.dumps({**record, "score": 0.99}) + "\n")
    capsys.readouterr()
    assert exit_code("compare", "run") == 2
    assert "was changed since its run wrote it" in capsys.readouterr().err


HOSTILE = "a [red]b[/red] \x1b[31mc\x07 \u202ed"


def test_text_from_files_is_shown_as_text():
    shown = StringIO()
    say(Console(file=shown, width=20), HOSTILE + "e" * 40)
    curve = Curve(HOSTILE, (0,), (1,), (3.0,), (0.5,), None, 0, None, None, None)
    Console(file=shown, width=200).print(comparison_table(Panel(HOSTILE, None, 0.9, 3.0, (curve,))))
    table = text_table("verdicts", ["claim"], [[HOSTILE]])
    Console(file=shown, width=200).print(table)
    visible = "a [red]b[/red] \\x1b[31mc\\x07 \\u202ed"
    assert shown.getvalue().count(visible) == 4
    assert markdown(table).splitlines()[-1] == f"| {visible} |"
    assert "e" * 40 in shown.getvalue()


def test_suggested_commands_can_be_pasted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    RunFolder.create(run_experiment(out="my run; rm x"))
    with pytest.raises(ValueError, match=r"continue it with `ctmle resume 'my run; rm x'`"):
        RunFolder.create(run_experiment(out="my run; rm x"))


def test_a_folder_with_somebody_elses_files_is_not_taken_for_an_empty_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("own").mkdir()
    Path("own/.download.part").write_bytes(TARGET)
    with pytest.raises(ValueError, match="is not an empty folder"):
        RunFolder.create(run_experiment(out="own"))
    assert Path("own/.download.part").read_bytes() == TARGET
