"""Real sweeps: two engines with equal results, killed workers, lost nodes, killed drivers, failing runs."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
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
from ctmle.lab.sweeps.sweep import Limits

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


def test_a_worker_that_stops_answering_is_replaced_and_nothing_is_lost(calm, tmp_path, monkeypatch):
    """It is frozen, not killed: nothing but its silence shows it."""
    monkeypatch.setattr("ctmle.lab.sweeps.engines.local.SILENCE", 8.0)
    out, engine = tmp_path / "sweep", LocalEngine(workers=1)
    striker = Striker(lambda: bool(in_progress(out)), lambda: engine.processes[0].send_signal(signal.SIGSTOP))
    results = run_sweep(PLAN, out, engine, watchers=(striker,))
    assert [result.status for result in results] == ["finished"] * len(SEEDS)
    assert striker.failures == ["its worker was silent for 8 s"]
    assert outcomes(out) == outcomes(calm)


def test_a_run_that_takes_too_long_stops_at_a_checkpoint_and_the_next_one_begins(tmp_path):
    """Two runs have no end in sight. The worker that did the first is replaced, and does the second."""
    plan, out = (
        Plan.of(EXPERIMENT.changed({"seed": seed, "episodes": 1_000_000}) for seed in (8, 9)),
        tmp_path / "sweep",
    )
    for slow in run_sweep(plan, out, LocalEngine(workers=1), limits=Limits(run=2.0)):
        assert slow.status == "failed"
        assert slow.reason == "it took longer than --time-limit 2 s; its checkpoints are kept"
        assert RunFolder(out / "runs" / slow.name).checkpoints != []


def test_a_sweep_whose_time_is_over_stops_at_checkpoints_and_says_how_to_go_on(tmp_path, capsys):
    content = json.loads(file_of(tmp_path / "sweep.json", (0,)).read_text())
    content["base"]["episodes"] = 1_000_000
    (tmp_path / "sweep.json").write_text(json.dumps(content))
    out = tmp_path / "sweep"
    with pytest.raises(SystemExit) as stop:
        main(["sweep", str(tmp_path / "sweep.json"), "--out", str(out), "--workers", "1", "--sweep-time-limit", "3"])
    said = capsys.readouterr().err
    assert stop.value.code == 1
    assert "the sweep's time limit of 3 s is over; everything is saved. Continue with: ctmle sweep" in said
    (folder,) = folders(out).values()
    assert folder.checkpoints != []
    assert not folder.finished


DEADLY = """
import os, signal
from pathlib import Path

from strikes import striking

def strike(operation, path):
    os.kill(os.getpid(), signal.SIGKILL)

for_good = striking(Path({folder!r}), strike)
for_good.__enter__()
"""


def test_workers_that_die_again_and_again_on_one_run_stop_that_run_only(calm, tmp_path, monkeypatch):
    out = tmp_path / "sweep"
    deadly, fine = (RunFolder(out / "runs" / run.name) for run in PLAN.runs[:2])
    (tmp_path / "sitecustomize.py").write_text(DEADLY.format(folder=str(deadly.path)))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(Path(__file__).parent / "faults")]))
    plan = Plan.of(EXPERIMENT.changed({"seed": seed}) for seed in SEEDS[:2])
    failed, finished = run_sweep(plan, out, LocalEngine(workers=1), retries=1)
    assert (failed.status, finished.status) == ("failed", "finished")
    assert "its worker was killed by SIGKILL" in failed.reason
    assert outcome(fine.path) == outcomes(calm)[fine.path.name]


def test_an_edited_log_of_a_finished_run_fails_in_a_sweep(calm, tmp_path):
    out = tmp_path / "sweep"
    shutil.copytree(calm, out)
    log = next(iter(folders(out).values())).metrics_file
    text = log.read_text()
    score = json.loads(text.splitlines()[0])["score"]
    log.write_text(text.replace(f'"score": {score}', f'"score": {str(score)[:-1]}{(int(str(score)[-1]) + 1) % 10}', 1))
    results = run_sweep(PLAN, out, LocalEngine(workers=1))
    assert [result.status for result in results] == ["failed", "finished", "finished"]
    assert "was changed since its run wrote it" in results[0].reason


def test_an_address_that_listens_but_is_no_ray_cluster_is_refused_within_a_stated_time(tmp_path, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setattr("ctmle.lab.sweeps.engines.ray.HEALTH", 3.0)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        engine = make_engine("ray", address=f"127.0.0.1:{listener.getsockname()[1]}")
        with pytest.raises(ValueError, match="no Ray cluster answers within 3 s"):
            engine.start(tmp_path, 1)
    with pytest.raises(ValueError, match="must be HOST:PORT or auto"):
        make_engine("ray", address="nonsense")


def listening(pids: set[int]) -> set[str]:
    """Addresses, as the kernel writes them, at which processes listen for connections."""
    sockets = set()
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                sockets.add(os.readlink(descriptor))
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in sockets:
                found.add(words[1].partition(":")[0])
    return found


def family(pid: int) -> set[int]:
    return {pid}.union(*(family(child) for child in children(pid)))


@pytest.mark.slow
def test_the_cluster_of_a_sweep_listens_on_loopback_only_and_asks_for_a_token(calm, tmp_path):
    file, out = file_of(tmp_path / "sweep.json", SEEDS), tmp_path / "sweep"
    place = Path(tempfile.mkdtemp(dir="/tmp"))  # sockets need a short path
    private = {**os.environ, "TMPDIR": str(place), "HOME": str(place)}
    driver = start_driver(file, out, "--engine", "ray", "--workers", "1", env=private)
    wait_until(lambda: in_progress(out), driver)
    (token,) = place.glob("ctmle-ray-*/token")
    assert token.stat().st_mode & 0o777 == 0o600
    found = listening(family(driver.pid))
    assert found
    assert found <= {"0100007F", "0000000000000000FFFF00000100007F"}
    driver.communicate(timeout=300)
    assert driver.returncode == 0
    assert not token.exists()
    assert not (place / ".ray").exists()
    shutil.rmtree(place)
    assert outcomes(out) == outcomes(calm)


def test_without_ray_the_error_names_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"pip install ctmle\[ray\]"):
        make_engine("ray")
