"""Runs on a Ray cluster: a running one, or one on this machine for the time of a sweep."""

import os
import socket
from pathlib import Path
from types import ModuleType
from typing import Any

from ctmle.lab.machine import versions
from ctmle.lab.sweeps.engines import Engine, environment_of_worker, workers_for
from ctmle.lab.sweeps.work import Report, Task, Worker

OBJECT_STORE = 80_000_000
"""Bytes, about the least that Ray accepts: only lines of text pass through it."""

PATIENCE = 5.0
"""Seconds to wait for an answer from an address."""

STILLBORN = 10
"""Workers that may be lost before their first run: nodes do get lost, but not more often than this."""

NO_ENTRY = (
    "`ray status --address HOST:PORT` says more. If the cluster asks for a token, set RAY_AUTH_MODE=token and put the"
    " token of its head node into ~/.ray/auth_token or RAY_AUTH_TOKEN"
)
"""Ray sends no token to an address that is named, unless it is told to."""


class RayEngine(Engine):
    """Workers as actors, one run at a time each. An actor, or a whole node, that is lost is replaced if there is room.

    An actor has a second thread, so that it can be stopped while it works. Actors wait until the cluster has cores for
    them, so nodes that join later are used too.
    """

    name = "ray"

    def __init__(self, address: str | None = None, workers: int | None = None, threads: int = 1):
        self.ray = _ray()
        _check_reachable(address)
        self.address, self.threads = address, threads
        self.workers = workers_for(workers, threads) if address is None else workers or 0
        self.actors: dict[int, Any] = {}
        self.joining: dict[Any, int] = {}
        self.at_work: dict[Any, int] = {}
        """Workers by the answers that they owe: versions when they join, reports when they work."""
        self.stillborn = 0
        self.versions = versions()
        self.started = False

    def start(self, folder: Path, runs: int) -> None:
        self.started = True
        own = {"num_cpus": self.workers * self.threads, "include_dashboard": False, "object_store_memory": OBJECT_STORE}
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
        self.workers = min(runs, self.workers or self._room())
        for worker in range(self.workers):
            self._hire(worker)

    def idle(self) -> list[int]:
        away = {*self.joining.values(), *self.at_work.values()}
        return [worker for worker in self.actors if worker not in away]

    def give(self, worker: int, task: Task) -> None:
        self.at_work[self.actors[worker].do.remote(task)] = worker

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
        return reports

    def stop(self) -> None:
        for worker in self.at_work.values():
            self.actors[worker].stop.remote()

    def close(self) -> None:
        if self.started:
            self.ray.shutdown()

    def _room(self) -> int:
        """Return the number of workers that the nodes have cores for."""
        nodes = [node["Resources"].get("CPU", 0) for node in self.ray.nodes() if node["Alive"]]
        room = sum(int(cpus // self.threads) for cpus in nodes)
        if room == 0:
            raise ValueError(f"--threads {self.threads}: no node of the Ray cluster has that many cores: choose fewer")
        return room

    def _hire(self, worker: int) -> None:
        actor = self.ray.remote(num_cpus=self.threads, max_concurrency=2, max_restarts=0)(Worker)
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


def _check_reachable(address: str | None) -> None:
    """Raise ValueError if nothing listens at HOST:PORT. Ray itself would keep trying for minutes."""
    host, _, port = (address or "").rpartition(":")
    if not host or not port.isdecimal() or "://" in host:
        return
    try:
        socket.create_connection((host, int(port)), timeout=PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise ValueError(
            f"--address {address}: there is no Ray cluster ({error}); `ray start --head` makes one"
        ) from error
