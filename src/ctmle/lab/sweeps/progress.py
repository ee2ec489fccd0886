"""Live progress of a sweep: a bar on a terminal, lines elsewhere, and the time that is left."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from ctmle.lab.report.run_result import RunResult
from ctmle.lab.sweeps.plan import PlannedRun


class Pace:
    """Estimates the time left from runs that have ended: the mean of their kind, or the mean of all kinds."""

    def __init__(self, left: Iterable[PlannedRun] = ()):
        self.left = Counter(run.kind for run in left)
        self.runs_left = self.left.total()
        self.all = _Mean()
        self.known: dict[str, _Mean] = {}
        """Means of the kinds that have runs left."""

    def measured(self, kind: str, seconds: float) -> None:
        """Learn from a run that took so many seconds."""
        self.all.add(seconds)
        if self.left[kind]:
            self.known.setdefault(kind, _Mean()).add(seconds)

    def ended(self, kind: str) -> None:
        """Take one from the runs that are left."""
        self.runs_left -= 1
        self.left[kind] -= 1
        if not self.left[kind]:
            self.known.pop(kind, None)

    @property
    def seconds_left(self) -> float | None:
        """Seconds for all runs that are left, one after another; None until a run has ended."""
        if not self.all.count:
            return None
        alike = sum(self.left[kind] for kind in self.known)
        by_kind = sum(self.left[kind] * mean.value for kind, mean in self.known.items())
        return by_kind + (self.runs_left - alike) * self.all.value


class _Mean:
    def __init__(self) -> None:
        self.total, self.count = 0.0, 0

    def add(self, value: float) -> None:
        self.total, self.count = self.total + value, self.count + 1

    @property
    def value(self) -> float:
        return self.total / self.count


@dataclass(frozen=True)
class Standing:
    """Counts of a sweep's runs, and the seconds that are left if they are known."""

    runs: int
    finished: int
    failed: int
    running: int
    seconds_left: float | None

    @property
    def waiting(self) -> int:
        return self.runs - self.finished - self.failed - self.running

    def __str__(self) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        time = "time left unknown" if self.seconds_left is None else f"about {duration(self.seconds_left)} left"
        left = f", {time}" if self.running or self.waiting else ""
        return f"{self.finished} of {self.runs} finished{failed}, {self.running} running, {self.waiting} waiting{left}"


class SweepWatcher(ABC):
    """Receives the progress of a sweep: a display, a test."""

    @abstractmethod
    def begins(self, prospect: str) -> None:
        """Receive a sentence about the work to do, once, before the first run."""

    @abstractmethod
    def see(self, standing: Standing) -> None:
        """Receive the standing, twice a second and after every change."""

    @abstractmethod
    def ended(self, result: RunResult) -> None:
        """Receive the result of a run that is finished, or that failed for the last time."""

    @abstractmethod
    def failed(self, name: str, reason: str) -> None:
        """Receive the reason why an attempt at a run failed that will be retried."""


class SweepProgress(SweepWatcher):
    """Shows runs done, running and left, and the time left. A context manager."""

    def __init__(self, console: Console):
        self.console = console
        self.bar = Progress(BarColumn(), TextColumn("{task.description}"), console=console, transient=True)
        self.task = self.bar.add_task("")
        self.done = 0

    def __enter__(self) -> "SweepProgress":
        if self.console.is_terminal:
            self.bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self.console.is_terminal:
            self.bar.stop()

    def begins(self, prospect: str) -> None:
        self._say(prospect)

    def see(self, standing: Standing) -> None:
        done = standing.finished + standing.failed
        self.bar.update(self.task, total=standing.runs, completed=done, description=str(standing))
        if done > self.done and not self.console.is_terminal:
            self._say(str(standing))
        self.done = done

    def ended(self, result: RunResult) -> None:
        if result.status == "failed":
            return self._say(f"{result.name} failed: {result.reason}")
        success = "no success" if result.first_success is None else f"success in episode {result.first_success}"
        score = f"last score {result.scores[-1]:.3f}, " if result.scores else ""
        return self._say(f"{result.name}: {score}{success}, {duration(result.seconds)}")

    def failed(self, name: str, reason: str) -> None:
        self._say(f"{name} will be retried: {reason}")

    def _say(self, line: str) -> None:
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)


def duration(seconds: float) -> str:
    """Spell a duration to about two digits."""
    minutes = round(seconds / 60)
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
