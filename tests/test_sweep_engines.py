"""Real sweeps: two engines with equal results, killed workers, lost nodes, killed drivers, failing runs."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tiny import run_experiment

from ctmle.lab.cli.main import main
from ctmle.lab.report.progress import Standing, SweepWatcher
from ctmle.lab.storage import RunFolder
from ctmle.lab.storage.files import only_writer
from ctmle.lab.sweeps import Plan, RunResult, run_sweep
from ctmle.lab.sweeps.engines import make_engine
from ctmle.lab.sweeps.engines.local import LocalEngine
from ctmle.lab.sweeps.engines.ray import OBJECT_STORE
from ctmle.lab.sweeps.plan import settings_of

sys.path.insert(0, str(Path(__file__).parent / "faults"))
from kills import outcome  # pyright: ignore[reportMissingImports]

# Many small checkpoints, so that there is a middle of a run to strike in.
EXPERIMENT = run_experiment("sac-tacos", updates_per_decision=4.0, chunk=2, checkpoint_every=1)
SEEDS = (0, 1, 2)
PLAN = Plan.of(EXPERIMENT.changed({"seed": seed}) for seed in SEEDS)


class Striker(SweepWatcher):
    """Watches a sweep, and strikes once as soon as it is ready."""

    def __init__(self, ready: Callable[[], bool], strike: Callable[[], None]):
        self.ready, self.strike = ready, strike
        self.struck = False
        self.failures: list[str] = []

    def begins(self, prospect: str) -> None: ...

    def see(self, standing: Standing) -> None:
        if not self.struck and self.ready():
            self.struck = True
            self.strike()

    def ended(self, result: RunResult) -> None: ...

    def failed(self, name: str, reason: str) -> None:
        self.failures.append(reason)


def folders(out: Path) -> dict[str, RunFolder]:
    return {path.name: RunFolder(path) for path in sorted((out / "runs").glob("*"))}


def in_progress(out: Path) -> list[str]:
    """Runs that have a checkpoint and are not finished."""
    return [name for name, folder in folders(out).items() if folder.checkpoints and not folder.finished]


def outcomes(out: Path) -> dict[str, dict[str, object]]:
    """Everything that must be equal, by run: metrics without wall clocks, weights and data."""
    return {name: outcome(folder.path) for name, folder in folders(out).items()}


@pytest.fixture(scope="module")
def calm(tmp_path_factory) -> Path:
    """An undisturbed sweep, shared by all test processes: the first one does it, the others find it finished."""
    own = tmp_path_factory.getbasetemp()
    out = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "calm"
    out.mkdir(exist_ok=True)
    with only_writer(out, 300.0):
        pass
    results = run_sweep(PLAN, out, LocalEngine())
    assert [result.status for result in results] == ["finished"] * len(SEEDS)
    assert [result.episodes for result in results] == [(1, 2)] * len(SEEDS)
    return out


def test_a_worker_that_is_killed_is_replaced_and_nothing_is_lost(calm, tmp_path):
    out, engine = tmp_path / "sweep", LocalEngine(workers=1)
    striker = Striker(lambda: bool(in_progress(out)), lambda: engine.processes[0].kill())
    results = run_sweep(PLAN, out, engine, watchers=(striker,), drop_checkpoints=True)
    assert [result.status for result in results] == ["finished"] * len(SEEDS)
    assert list((out / "runs").glob("*/checkpoints/*")) == []
    assert len(striker.failures) == 1
    assert "its worker was killed by SIGKILL" in striker.failures[0]
    assert outcomes(out) == outcomes(calm)


def file_of(path: Path, seeds: tuple[int, ...]) -> Path:
    """Write a file that asks for the same runs."""
    base = {name: value for name, value in settings_of(EXPERIMENT).items() if name not in ("seed", "out", "threads")}
    path.write_text(json.dumps({"base": base, "grid": {"seed": seeds}}))
    return path


def start_driver(file: Path, out: Path, *options: str, **process: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "ctmle", "sweep", str(file), "--out", str(out), *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **process)


def wait_until(condition: Callable[[], object], driver: subprocess.Popen[Any] | None = None) -> None:
    until = time.monotonic() + 300
    while not condition():
        assert driver is None or driver.poll() is None, "the driver ended too early"
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.01)


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[Any, Any]]:
    """A real Ray cluster of two nodes with one core each, on this machine, and the node that can be taken away."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    node: dict[str, Any] = {"num_cpus": 1, "object_store_memory": OBJECT_STORE}
    started = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    yield started, started.add_node(**node)
    started.shutdown()


def test_a_ray_cluster_gives_the_same_and_survives_the_loss_of_a_driver_and_of_a_node(calm, cluster, tmp_path):
    """A driver is killed during a run. Under the next, all short runs finish; then a node is lost during a long one."""
    out, engine = tmp_path / "sweep", make_engine("ray", address=cluster[0].address)
    killed = start_driver(
        file_of(tmp_path / "sweep.json", SEEDS), out, "--engine", "ray", "--address", cluster[0].address
    )
    wait_until(lambda: in_progress(out), killed)
    killed.kill()
    killed.communicate()
    assert sum(folder.finished for folder in folders(out).values()) == 0

    # Workers outlive their node by a second or more: a run must be long enough for them to be lost in it.
    long = [EXPERIMENT.changed({"seed": seed, "episodes": 40}) for seed in (3, 4)]
    plan = Plan.of([*(EXPERIMENT.changed({"seed": seed}) for seed in SEEDS), *long])

    def both_nodes_are_at_a_long_run() -> bool:
        return sum(folder.finished for folder in folders(out).values()) == 3 and len(in_progress(out)) == 2

    strike = lambda: cluster[0].remove_node(cluster[1], allow_graceful=False)  # noqa: E731
    striker = Striker(both_nodes_are_at_a_long_run, strike)
    results = run_sweep(plan, out, engine, watchers=(striker,))
    assert engine.workers == 2
    assert striker.struck
    assert [result.status for result in results] == ["finished"] * 5
    assert len(striker.failures) == 1
    assert "its worker was lost" in striker.failures[0]
    by_digest = {name.rpartition("-")[2]: found for name, found in outcomes(out).items()}
    for name, expected in outcomes(calm).items():
        assert by_digest[name.rpartition("-")[2]] == expected


def free_port() -> int:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        return holder.getsockname()[1]


def is_open(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.slow
def test_a_ray_cluster_that_asks_for_a_token(calm, tmp_path):
    """A cluster that `ray start` makes on the command line. Without the token, Ray tries for twenty seconds."""
    file, out, port = file_of(tmp_path / "sweep.json", SEEDS), tmp_path / "sweep", free_port()
    token = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64}
    start = ["start", "--head", "--block", "--port", str(port), "--num-cpus", "2", "--include-dashboard", "false"]
    head = subprocess.Popen([str(Path(sys.executable).with_name("ray")), *start], env=token, stdout=subprocess.DEVNULL)
    there = ("--engine", "ray", "--address", f"127.0.0.1:{port}")
    try:
        wait_until(lambda: is_open(port), head)
        no_token = {**os.environ, "RAY_AUTH_MODE": "disabled"}
        stranger = start_driver(file, out, *there, env=no_token, stderr=subprocess.PIPE)
        said = stranger.communicate(timeout=120)[1]
        assert stranger.returncode == 2
        assert "set RAY_AUTH_MODE=token" in said.splitlines()[-1]
        friend = start_driver(file, out, *there, env=token)
        friend.communicate(timeout=300)
        assert friend.returncode == 0
    finally:
        head.terminate()
        head.wait(timeout=60)
    assert outcomes(out) == outcomes(calm)


def traces(folder: RunFolder) -> dict[str, tuple[int, int]]:
    """Files with their inodes and times of writing: any run in a folder would change them."""
    files = [path for path in folder.path.rglob("*") if path.is_file()]
    return {str(path): (path.stat().st_ino, path.stat().st_mtime_ns) for path in files}


def test_a_sweep_that_is_stopped_and_then_killed_continues_without_repeating_anything(calm, tmp_path):
    file, out = file_of(tmp_path / "sweep.json", SEEDS), tmp_path / "sweep"
    first, second, _ = (RunFolder(out / "runs" / run.name) for run in PLAN.runs)

    stopped = start_driver(file, out, "--workers", "1")
    wait_until(lambda: first.checkpoints, stopped)
    stopped.send_signal(signal.SIGINT)
    said = stopped.communicate(timeout=300)[0]
    assert stopped.returncode == 128 + signal.SIGINT
    assert f"Continue with: ctmle sweep {file} --out {out} --workers 1" in said
    assert not first.finished

    killed = start_driver(file, out, "--workers", "1")
    wait_until(lambda: second.checkpoints, killed)
    workers = children(killed.pid)
    assert first.finished
    assert len(workers) == 1
    before = traces(first)
    killed.kill()
    killed.communicate()
    wait_until(lambda: not any(is_alive(worker) for worker in workers))
    assert not second.finished

    main(["sweep", str(file), "--out", str(out), "--workers", "1"])
    assert traces(first) == before
    assert outcomes(out) == outcomes(calm)


FULL_DISK = """
import errno, os
from pathlib import Path

from strikes import striking

def strike(operation, path):
    if operation == "write":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

for_good = striking(Path({folder!r}), strike)
for_good.__enter__()
"""


def test_a_run_that_fails_is_retried_and_reported_while_the_others_finish(calm, tmp_path, capsys, monkeypatch):
    """The disk is full: nothing of one run can be written. Once that is fixed, only this run is left."""
    file, out = file_of(tmp_path / "sweep.json", (0, 1)), tmp_path / "sweep"
    doomed, fine = (RunFolder(out / "runs" / run.name) for run in PLAN.runs[:2])
    trap = tmp_path / "sitecustomize.py"  # which every worker runs when it starts
    trap.write_text(FULL_DISK.format(folder=str(doomed.path)))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(Path(__file__).parent / "faults")]))
    with pytest.raises(SystemExit) as stop:
        main(["sweep", str(file), "--out", str(out), "--workers", "1", "--retries", "1"])
    said = capsys.readouterr()
    assert stop.value.code == 1
    assert said.out.count(f"{doomed.path.name} will be retried: OSError: [Errno 28] No space left on device") == 1
    assert f"failed: {doomed.path.name}: OSError: [Errno 28] No space left on device" in said.out
    assert said.err.startswith("ctmle: 1 of 2 runs failed; the others are finished.")
    assert outcome(fine.path) == outcomes(calm)[fine.path.name]
    trap.unlink()
    main(["sweep", str(file), "--out", str(out), "--dry-run"])
    assert "2 runs: 1 finished, 0 begun, 1 to do" in capsys.readouterr().out


def test_without_ray_the_error_names_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"pip install ctmle\[ray\]"):
        make_engine("ray")
