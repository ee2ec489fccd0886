"""How a sweep goes, live: a bar on a terminal, lines elsewhere."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from ctmle.lab.sweeps.result import Result


@dataclass(frozen=True)
class Standing:
    """Where a sweep stands."""

    runs: int
    finished: int
    failed: int
    running: int
    seconds_left: float

    @property
    def waiting(self) -> int:
        return self.runs - self.finished - self.failed - self.running

    def __str__(self) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        left = f", about {duration(self.seconds_left)} left" if self.running or self.waiting else ""
        return f"{self.finished} of {self.runs} finished{failed}, {self.running} running, {self.waiting} waiting{left}"


@runtime_checkable
class SweepWatcher(Protocol):
    """Whoever wants to know how a sweep goes."""

    def begins(self, prospect: str) -> None:
        """With what there is to do, in a sentence."""
        ...

    def see(self, standing: Standing) -> None:
        """Twice a second, and after every change."""
        ...

    def ended(self, result: Result) -> None:
        """A run is finished, or has failed for good."""
        ...

    def failed(self, name: str, reason: str) -> None:
        """An attempt at a run failed, and there will be another."""
        ...


class Unwatched:
    """Nobody wants to know."""

    def begins(self, prospect: str) -> None: ...

    def see(self, standing: Standing) -> None: ...

    def ended(self, result: Result) -> None: ...

    def failed(self, name: str, reason: str) -> None: ...


class SweepProgress:
    """Shows runs done, running and left, and the time that they may take. A context manager; a `SweepWatcher`."""

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

    def ended(self, result: Result) -> None:
        if result.status == "failed":
            return self._say(f"{result.name} failed: {result.reason}")
        success = "no success" if result.first_success is None else f"success in episode {result.first_success}"
        score = f"last score {result.scores[-1]:.3f}, " if result.scores else ""
        return self._say(f"{result.name}: {score}{success}, {duration(result.seconds)}")

    def failed(self, name: str, reason: str) -> None:
        self._say(f"{name} will be tried again: {reason}")

    def _say(self, line: str) -> None:
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)


def duration(seconds: float) -> str:
    """In words, to two figures or so."""
    minutes = round(seconds / 60)
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
