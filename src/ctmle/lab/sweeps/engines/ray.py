"""Runs on a Ray cluster: a running one, or one on this machine for the time of a sweep."""

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from ctmle.lab.machine import versions
from ctmle.lab.sweeps.engines import BEAT, SILENCE, Engine, environment_of_worker, workers_for
from ctmle.lab.sweeps.work import Report, Task, Worker

OBJECT_STORE = 80_000_000
"""Bytes, about the least that Ray accepts: only lines of text pass through it."""

PATIENCE, HEALTH = 5.0, 30.0
"""Seconds to wait for a connection to an address, and for an answer that only a Ray cluster gives."""

LOOPBACK = "127.0.0.1"
"""Address that no other machine can reach."""

STILLBORN = 10
"""Workers that may be lost before their first run: nodes do get lost, but not more often than this."""

NO_ENTRY = (
    "`ray status --address HOST:PORT` says more. If the cluster asks for a token, set RAY_AUTH_MODE=token and put the"
    " token of its head node into ~/.ray/auth_token or RAY_AUTH_TOKEN"
)
"""Ray sends no token to an address that is named, unless it is told to."""


class RayEngine(Engine):
    """Workers as actors, one run at a time each. An actor, or a whole node, that is lost is replaced if there is room.

    An actor has more threads, so that it can be stopped, and give signs of life, while it works. Actors wait until the
    cluster has cores for them, so nodes that join later are used too.
    """

    name = "ray"

    def __init__(self, address: str | None = None, workers: int | None = None, threads: int = 1):
        _check_address(address)
        self.own = OwnCluster() if address is None else None
        self.ray = _ray()
        self.address, self.threads = address, threads
        self.workers = workers_for(workers, threads) if address is None else workers or 0
        self.actors: dict[int, Any] = {}
        self.joining: dict[Any, int] = {}
        self.at_work: dict[Any, int] = {}
        """Workers by the answers that they owe: versions when they join, reports when they work."""
        self.stillborn = 0
        self.versions = versions()
        self.pings: dict[int, tuple[Any, float]] = {}
        """The sign of life that each worker at work owes, and when it was asked for."""
        self.started = False

    def start(self, folder: Path, runs: int) -> None:
        if self.address is not None:
            _check_answers(self.address)
        self.started = True
        own = {"num_cpus": self.workers * self.threads, "include_dashboard": False, "object_store_memory": OBJECT_STORE,
               "_node_ip_address": LOOPBACK}  # fmt: skip
        jax_settings = {name: value for name, value in os.environ.items() if name.startswith(("JAX_", "XLA_"))}
        try:
            self.ray.init(
                address=self.address or "local",
                runtime_env={"env_vars": {**jax_settings, **environment_of_worker(self.threads)}},
                log_to_driver=False,
                logging_level="ERROR",
                **({} if self.address else own),
            )
        except (ConnectionError, self.ray.exceptions.RayError) as error:
            if self.address is None:
                raise
            raise ValueError(f"--address {self.address}: {_first_line(error).rstrip('.')}; {NO_ENTRY}") from error
        if self.own is not None:
            self.own.check(self.ray.get_runtime_context().gcs_address)
        self.workers = min(runs, self.workers or self._room())
        for worker in range(self.workers):
            self._hire(worker)

    def idle(self) -> list[int]:
        away = {*self.joining.values(), *self.at_work.values()}
        return [worker for worker in self.actors if worker not in away]

    def give(self, worker: int, task: Task) -> None:
        self.at_work[self.actors[worker].do.remote(task)] = worker
        self.pings[worker] = (self.actors[worker].alive.remote(), time.monotonic())

    def wait(self, seconds: float) -> list[tuple[int, Report]]:
        promises = [*self.joining, *self.at_work]
        kept, _ = self.ray.wait(promises, num_returns=len(promises), timeout=0)
        if not kept:
            kept, _ = self.ray.wait(promises, timeout=seconds)
        reports = []
        for promise in kept:
            if promise in self.joining:
                self._welcome(promise)
            else:
                reports.append(self._report(promise))
        return reports + [report for promise in list(self.at_work) for report in self._listen(promise)]

    def stop(self, worker: int) -> None:
        self.actors[worker].stop.remote()

    def lose(self, worker: int) -> None:
        self.at_work = {promise: other for promise, other in self.at_work.items() if other != worker}
        self._replace(worker)

    def close(self) -> None:
        if self.started:
            self.ray.shutdown()
        if self.own is not None:
            self.own.close()

    def _listen(self, promise: Any) -> list[tuple[int, Report]]:
        """Ask a worker for the next sign of life if it gave the last one; report it as lost if it owes one for long."""
        worker = self.at_work[promise]
        ping, asked = self.pings[worker]
        waited = time.monotonic() - asked
        if waited > BEAT and self.ray.wait([ping], timeout=0)[0]:
            self.pings[worker] = (self.actors[worker].alive.remote(), time.monotonic())
        elif waited > SILENCE:
            self.lose(worker)
            return [(worker, Report("failed", reason=f"its worker was silent for {SILENCE:g} s", again=True))]
        return []

    def _room(self) -> int:
        """Return the number of workers that the nodes have cores for."""
        nodes = [node["Resources"].get("CPU", 0) for node in self.ray.nodes() if node["Alive"]]
        room = sum(int(cpus // self.threads) for cpus in nodes)
        if room == 0:
            raise ValueError(f"--threads {self.threads}: no node of the Ray cluster has that many cores: choose fewer")
        return room

    def _hire(self, worker: int) -> None:
        actor = self.ray.remote(num_cpus=self.threads, max_concurrency=3, max_restarts=0)(Worker)
        self.actors[worker] = actor.remote()
        self.joining[self.actors[worker].versions.remote()] = worker

    def _replace(self, worker: int) -> None:
        self.ray.kill(self.actors.pop(worker))
        self._hire(worker)

    def _welcome(self, promise: Any) -> None:
        """Check the versions of a worker that joined; replace one that was lost before it could."""
        worker = self.joining.pop(promise)
        try:
            theirs = self.ray.get(promise)
        except self.ray.exceptions.RayError as error:
            self.stillborn += 1
            if self.stillborn > STILLBORN:
                raise RuntimeError(f"workers of the Ray cluster cannot start: {_first_line(error)}") from error
            self._replace(worker)
            return
        odd = {name: there for name, there in theirs.items() if there != self.versions.get(name, there)}
        if odd:
            raise ValueError(f"the Ray cluster has {odd}, other than here: install the same on every node")

    def _report(self, promise: Any) -> tuple[int, Report]:
        worker = self.at_work.pop(promise)
        try:
            return worker, self.ray.get(promise)
        except self.ray.exceptions.RayError as error:
            self._replace(worker)
            return worker, Report("failed", reason=f"its worker was lost ({_first_line(error)})", again=True)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _ray() -> ModuleType:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise ValueError("--engine ray needs Ray: pip install ctmle[ray]") from error
    return ray


class OwnCluster:
    """The environment of a cluster that is started for one sweep: it listens on loopback only and asks for a token.

    The token is new, in a file that only this user can read, and gone with the cluster. Ray reads these settings when
    it is imported, so this comes first.
    """

    def __init__(self) -> None:
        if sys.modules.get("ray") is not None:
            raise ValueError(
                "Ray was imported before, so a cluster of its own cannot be kept private: start one with `ray start`"
                " and give its --address"
            )
        self.folder = Path(tempfile.mkdtemp(prefix="ctmle-ray-"))
        token = self.folder / "token"
        with os.fdopen(os.open(token, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(32))
        os.environ.pop("RAY_AUTH_TOKEN", None)
        os.environ |= {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(token),
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # Ray's name for: only this machine, by its loopback address
        }

    def check(self, address: str) -> None:
        """Raise RuntimeError if the cluster listens on more than loopback."""
        if not address.startswith(f"{LOOPBACK}:"):
            raise RuntimeError(
                f"this version of Ray listens on {address}, which others can reach: start a cluster with `ray start`"
                " and give its --address"
            )

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def _check_address(address: str | None) -> None:
    """Raise ValueError unless something listens at HOST:PORT. Ray itself would keep trying for minutes."""
    if address in (None, "auto") or "://" in address:
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(f"--address {address} must be HOST:PORT or auto, such as 10.0.0.1:6379")
    try:
        socket.create_connection((host, int(port)), timeout=PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise ValueError(
            f"--address {address}: there is no Ray cluster ({error}); `ray start --head` makes one"
        ) from error


def _check_answers(address: str) -> None:
    """Raise ValueError if what listens at an address does not answer as a Ray cluster does."""
    command = [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--address", address]
    try:
        asked = subprocess.run(command, capture_output=True, timeout=HEALTH, check=False) if address != "auto" else None
    except subprocess.TimeoutExpired as error:
        raise ValueError(f"--address {address}: no Ray cluster answers within {HEALTH:g} s; {NO_ENTRY}") from error
    if asked is not None and asked.returncode != 0:
        raise ValueError(f"--address {address}: no Ray cluster that lets this machine in answers; {NO_ENTRY}")
