"""The driver of a sweep with a scripted engine: retries, skipping, stopping, the table, the lock."""

import csv
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from tiny import run_experiment

from ctmle.lab.cli.main import main
from ctmle.lab.experiment import from_settings
from ctmle.lab.interrupt import Interrupted
from ctmle.lab.report.progress import Standing, SweepWatcher
from ctmle.lab.storage import RunFolder
from ctmle.lab.storage.files import only_writer
from ctmle.lab.storage.log import Mark
from ctmle.lab.sweeps import Plan, run_sweep
from ctmle.lab.sweeps.engines import Engine
from ctmle.lab.sweeps.folder import SweepFolder
from ctmle.lab.sweeps.plan import settings_of
from ctmle.lab.sweeps.work import Report, Task, Worker

RECORDS = (
    {
        "episode": 1,
        "score": 0.5,
        "score_se": 0.1,
        "success": False,
        "looks": 40,
        "fit_seconds": 2.0,
        "experience_seconds": 2.5,
        "experience_looks": 20,
    },
    {
        "episode": 2,
        "score": 0.95,
        "score_se": 0.01,
        "success": True,
        "looks": 60,
        "fit_seconds": 1.0,
        "experience_seconds": 5.0,
        "experience_looks": 40,
    },
)
FINISHED = Report("finished", RECORDS)
LOST = Report("failed", reason="its worker was lost", again=True)
MISTAKE = Report("failed", RECORDS[:1], "that cannot work", again=False)


class Scripted(Engine):
    """Ends the attempts at each seed as the script says, then finishes it, with a folder as a real one would."""

    name, threads = "scripted", 1

    def __init__(self, script: dict[int, list[Report]] | None = None, workers: int = 2, folders: bool = True):
        self.folders = folders
        self.script, self.workers = {seed: list(reports) for seed, reports in (script or {}).items()}, workers
        self.tasks: dict[int, Task] = {}
        self.attempts: Counter[int] = Counter()
        self.most_at_a_time, self.stopped, self.closed = 0, False, False

    def start(self, folder: Path, runs: int) -> None: ...

    def idle(self) -> list[int]:
        return [worker for worker in range(self.workers) if worker not in self.tasks]

    def give(self, worker: int, task: Task) -> None:
        assert worker in self.idle()
        self.tasks[worker] = task
        self.attempts[task.settings["seed"]] += 1
        self.most_at_a_time = max(self.most_at_a_time, len(self.tasks))

    def wait(self, seconds: float) -> list[tuple[int, Report]]:
        worker, task = self.tasks.popitem()
        if self.stopped:
            return [(worker, Report("stopped"))]
        told = self.script.get(task.settings["seed"], [])
        report = told.pop(0) if told else FINISHED
        if report.ending == "finished" and self.folders:
            keep(task, report)
        return [(worker, report)]

    def stop(self, worker: int) -> None:
        self.stopped = True

    def lose(self, worker: int) -> None:
        self.tasks.pop(worker, None)

    def close(self) -> None:
        self.closed = True


def keep(task: Task, report: Report) -> None:
    """Write the files of a finished run."""
    folder = RunFolder.create(from_settings(task.settings))
    log = folder.write_log(list(report.records))
    folder.save_checkpoint({"x": np.zeros(1)}, log.mark, finished=True, keep=1)


def plan_of(seeds, **changes) -> Plan:
    return Plan.of(run_experiment(seed=seed, **changes) for seed in seeds)


SIX = plan_of(range(6))


@settings(max_examples=20)
@given(
    script=st.dictionaries(st.integers(0, 5), st.lists(st.sampled_from([LOST, MISTAKE]), max_size=4), max_size=6),
    retries=st.integers(0, 3),
    workers=st.integers(1, 4),
)
def test_every_run_ends_once_and_is_tried_no_more_often_than_allowed(script, retries, workers):
    engine = Scripted(script, workers, folders=False)
    with tempfile.TemporaryDirectory() as folder:
        results = run_sweep(SIX, Path(folder) / "sweep", engine, retries=retries)
    assert [result.settings["seed"] for result in results] == list(range(6))
    assert engine.most_at_a_time <= workers
    assert engine.closed
    for seed, result in enumerate(results):
        told = script.get(seed, [])
        final = next((i for i, report in enumerate(told) if not report.again or i == retries), None)
        assert engine.attempts[seed] == (len(told) if final is None else final) + 1
        assert result.status == ("finished" if final is None else "failed")
        assert result.reason == ("" if final is None else told[final].reason)
        assert result.scores == ((0.5, 0.95) if final is None else (0.5,) if told[final] is MISTAKE else ())


def test_a_result_is_what_the_log_says(tmp_path):
    (result,) = run_sweep(plan_of([3]), tmp_path / "sweep", Scripted())
    assert (result.episodes, result.scores, result.score_errors, result.looks) == (
        (1, 2), (0.5, 0.95), (0.1, 0.01), (40, 60),
    )  # fmt: skip
    assert (result.first_success, result.seconds) == (2, 3.0)
    assert (result.looks_to_success, result.seconds_to_success) == (40, 5.0)
    assert from_settings(result.settings) == run_experiment(seed=3)


def test_finished_runs_are_skipped_and_only_what_is_new_is_run(tmp_path):
    out = tmp_path / "sweep"
    before = run_sweep(plan_of(range(3)), out, Scripted())
    again = Scripted()
    assert run_sweep(plan_of(range(3)), out, again) == before
    more = Scripted()
    # Sigma varies now, so new folders have other names; the old ones are still found.
    wider = Plan.of(run_experiment(seed=seed, sigma=sigma) for sigma in (2.0, 1.0) for seed in range(4))
    results = run_sweep(wider, out, more)
    assert again.attempts == {}
    assert more.attempts == {0: 1, 1: 1, 2: 1, 3: 2}
    assert results[:3] == before
    assert len(list((out / "runs").iterdir())) == 8


def test_where_files_go_does_not_make_a_run_new_but_what_is_learned_from_does(tmp_path):
    out = tmp_path / "sweep"
    run_sweep(plan_of(range(2)), out, Scripted())
    same, other = Scripted(), Scripted()
    run_sweep(plan_of(range(2), checkpoint_every=1, threads=2), out, same)
    run_sweep(plan_of(range(2), horizon=5.0), out, other)
    assert same.attempts == {}
    assert other.attempts == {0: 1, 1: 1}


@pytest.mark.parametrize("damage", ["no end", "no log", "other settings", "no checkpoint"])
def test_a_run_is_finished_only_if_its_folder_says_so(damage, tmp_path):
    out = tmp_path / "sweep"
    (result,) = run_sweep(plan_of([0]), out, Scripted())
    folder = RunFolder(out / "runs" / result.name)
    if damage == "no end":
        folder.save_checkpoint({"x": np.zeros(1)}, Mark(), finished=False, keep=2)
    elif damage == "no log":
        folder.metrics_file.unlink()
    elif damage == "other settings":
        content = json.loads(folder.config_file.read_text())
        folder.config_file.write_text(json.dumps({**content, "sigma": 0.0}))
    else:
        folder.checkpoints[-1].write_bytes(b"")
    survey = SweepFolder(out).survey(plan_of([0]))
    assert survey.finished == {}
    assert survey.begun == {result.name}
    assert survey.prospect(1).startswith("1 runs: 0 finished, 1 begun, 1 to do")


def test_a_finished_run_needs_no_checkpoints_to_be_known_as_such(tmp_path, capsys):
    out, again = tmp_path / "sweep", Scripted()
    before = run_sweep(plan_of([0, 1]), out, Scripted())
    for checkpoint in (out / "runs").glob("*/checkpoints/*"):
        checkpoint.unlink()
    assert run_sweep(plan_of([0, 1]), out, again) == before
    assert again.attempts == {}
    for command in ("resume", "evaluate"):
        with pytest.raises(SystemExit) as stop:
            main([command, str(out / "runs" / before[0].name)])
        assert stop.value.code == 2
        assert "is finished, and its checkpoints were dropped" in capsys.readouterr().err


def test_the_table_has_a_row_per_run(tmp_path):
    out = tmp_path / "sweep"
    plan = Plan.of(run_experiment(seed=seed, gap=gap) for gap in (0.25, 0.5) for seed in range(2))
    results = run_sweep(plan, out, Scripted({1: [MISTAKE]}, workers=1))
    with (out / "results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == [result.name for result in results]
    assert [(float(row["gap"]), int(row["seed"])) for row in rows] == [(0.25, 0), (0.25, 1), (0.5, 0), (0.5, 1)]
    assert [row["status"] for row in rows] == ["finished", "failed", "finished", "finished"]
    assert rows[1]["reason"] == "that cannot work"
    assert rows[0]["scores"] == "0.5 0.95"
    assert rows[0]["first_success"] == "2"
    about = json.loads((out / "sweep.json").read_text())
    assert about["runs"] == 4
    assert {"ctmle", "jax", "python"} <= about["versions"].keys()


class Signaller(Scripted):
    """Sends a signal to its own process when it is given its second run."""

    def give(self, worker: int, task: Task) -> None:
        super().give(worker, task)
        if sum(self.attempts.values()) == 2:
            os.kill(os.getpid(), signal.SIGINT)


def test_a_signal_stops_the_workers_and_the_sweep_goes_on_later(tmp_path):
    out, engine = tmp_path / "sweep", Signaller(workers=2)
    with pytest.raises(Interrupted) as stop:
        run_sweep(plan_of(range(4)), out, engine)
    assert stop.value.exit_code == 128 + signal.SIGINT
    assert engine.stopped
    assert engine.closed
    assert len((out / "results.csv").read_text().splitlines()) == 2  # the run that had ended, and the names of columns
    rest = Scripted()
    assert [result.status for result in run_sweep(plan_of(range(4)), out, rest)] == ["finished"] * 4
    assert sum(rest.attempts.values()) == 3


def test_two_drivers_do_not_share_a_folder(tmp_path):
    out = tmp_path / "sweep"
    run_sweep(plan_of([0]), out, Scripted())
    with only_writer(out), pytest.raises(ValueError, match="another process is working on"):
        run_sweep(plan_of([0, 1]), out, Scripted())


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match="is not the folder of a sweep: choose another --out"):
        run_sweep(plan_of([0]), tmp_path, Scripted())
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


class Diary(SweepWatcher):
    """Records everything that it receives."""

    def __init__(self):
        self.standings: list[Standing] = []
        self.lines: list[str] = []

    def begins(self, prospect: str) -> None:
        self.lines.append(prospect)

    def see(self, standing: Standing) -> None:
        self.standings.append(standing)

    def ended(self, result) -> None:
        self.lines.append(f"{result.settings['seed']} {result.status}")

    def failed(self, name: str, reason: str) -> None:
        self.lines.append(f"again: {reason}")


def test_watchers_see_all_of_it(tmp_path):
    diary = Diary()
    run_sweep(plan_of(range(3)), tmp_path / "sweep", Scripted({1: [LOST]}, workers=1), watchers=(diary,))
    assert diary.lines[0].endswith("3 to do, time unknown until a run has ended")
    assert diary.lines[1:] == ["0 finished", "again: its worker was lost", "2 finished", "1 finished"]
    for standing in diary.standings:
        assert standing.finished + standing.failed + standing.running + standing.waiting == standing.runs == 3
    assert str(diary.standings[0]) == "0 of 3 finished, 1 running, 2 waiting, time left unknown"
    assert diary.standings[-1].seconds_left == 0.0
    assert str(diary.standings[-1]) == "3 of 3 finished, 0 running, 0 waiting"


def test_a_sweep_that_continues_knows_the_pace_of_its_finished_runs(tmp_path):
    out, diary = tmp_path / "sweep", Diary()
    run_sweep(plan_of([0]), out, Scripted())
    run_sweep(plan_of(range(3)), out, Scripted(workers=2), watchers=(diary,))
    assert diary.lines[0] == (
        "3 runs: 1 finished, 0 begun, 2 to do, about 3 s on 2 workers (at the pace of the finished ones)"
    )
    assert diary.standings[0].seconds_left == 3.0  # two runs of 3 seconds each on two workers


def test_a_driver_computes_nothing_with_jax_and_loads_no_ray_or_matplotlib(tmp_path):
    """Importing JAX is quick; its backend would take the threads and the memory that belong to the workers."""
    (tmp_path / "sweep.toml").write_text("[grid]\nagent = ['ct-mle', 'enode', 'sac-tacos']\nsigma = [0, 1]")
    code = (
        "import sys; from ctmle.lab.cli.main import main; main(['sweep', 'sweep.toml', '--dry-run'])\n"
        "import ctmle.lab.sweeps.engines.ray; from jax._src.xla_bridge import backends_are_initialized\n"
        "sys.exit(backends_are_initialized() + sum(name in sys.modules for name in ('ray', 'matplotlib')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=tmp_path).returncode == 0


def test_tasks_and_reports_are_the_same_after_the_journey():
    experiment = run_experiment("sac-tacos", sigma=0.1 + 0.2, threads=3, out="/runs/a")
    task = Task.at(Path("/runs"), "a", settings_of(run_experiment("sac-tacos", sigma=0.1 + 0.2)), threads=3)
    assert Task.from_line(task.to_line()) == task
    assert from_settings(Task.from_line(task.to_line()).settings) == experiment
    assert Report.from_line(MISTAKE.to_line()) == MISTAKE


def test_a_worker_does_not_continue_a_run_that_has_other_settings(tmp_path):
    RunFolder.create(run_experiment("sac-tacos", out=str(tmp_path / "a")))
    report = Worker().do(Task.at(tmp_path, "a", settings_of(run_experiment("sac-tacos", sigma=0.0)), threads=1))
    assert (report.ending, report.again) == ("failed", False)
    assert "holds a run with other settings" in report.reason


def test_a_worker_compiles_nothing_for_another_seed(tmp_path, caplog):
    """Otherwise a worker would hold programs of every run that it ever did."""
    worker, own = Worker(), run_experiment("sac-tacos", critic_rate=1.3e-3)  # no other test has compiled it

    def compiled(seed: int) -> list[str]:
        caplog.clear()
        with jax.log_compiles():
            report = worker.do(Task.at(tmp_path, f"seed{seed}", settings_of(own.changed({"seed": seed})), threads=1))
        assert report.ending == "finished"
        return [record.getMessage() for record in caplog.records if record.getMessage().startswith("Compiling")]

    assert compiled(0)
    assert compiled(1) == []
