"""The runs of a sweep that wait for a worker."""

from collections import deque
from collections.abc import Iterable

from ctmle.lab.sweeps.plan import PlannedRun, kind_of


class Waiting:
    """Runs in the order of the plan, but a worker goes on with the kind it has compiled programs for, if it can."""

    def __init__(self, runs: Iterable[PlannedRun]):
        self.kinds: dict[str, deque[PlannedRun]] = {}
        self.last: dict[int, str] = {}
        """The kind that each worker was given last."""
        self.count = 0
        for run in runs:
            self.put(run)

    def __len__(self) -> int:
        return self.count

    def put(self, run: PlannedRun) -> None:
        self.kinds.setdefault(kind_of(run.config), deque()).append(run)
        self.count += 1

    def take(self, worker: int) -> PlannedRun:
        """The next run for this worker."""
        kind = self.last[worker] = self._choose(worker)
        run = self.kinds[kind].popleft()
        if not self.kinds[kind]:
            del self.kinds[kind]
        self.count -= 1
        return run

    def _choose(self, worker: int) -> str:
        """Its own kind; or the first that no other worker is at; or the one with most runs, to lend a hand."""
        own = self.last.get(worker)
        if own in self.kinds:
            return own
        taken = set(self.last.values())
        free = next((kind for kind in self.kinds if kind not in taken), None)
        return free if free is not None else max(self.kinds, key=lambda kind: len(self.kinds[kind]))
