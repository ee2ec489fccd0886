"""Live progress of a run and of a sweep: a panel or a bar on a terminal, plain lines elsewhere."""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.progress_bar import ProgressBar
from rich.table import Table

from ctmle.lab.report import say
from ctmle.lab.report.results import RunResult, seconds_of

Record = dict[str, Any]


class RunDisplay:
    """Shows episode, stage, losses, score, looks and time left. A context manager; a `Watcher` of a run."""

    def __init__(self, episodes: int, console: Console):
        self.episodes = episodes
        self.console = console
        self.first: Record | None = None
        self.last: Record | None = None
        self.later_seconds = 0.0
        """Seconds of all episodes but the first, which also pays for compilation."""
        self.started = time.perf_counter()
        self.episode_started = self.started
        self.spoken: tuple[int, str] | None = None
        self.live = Live(console=console, auto_refresh=False) if console.is_terminal else None

    def __enter__(self) -> "RunDisplay":
        if self.live:
            self.live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self.live:
            self.live.update("", refresh=True)
            self.live.stop()

    def see(self, progress: Record) -> None:
        if self.live:
            self.live.update(self._panel(progress), refresh=True)
        elif self.spoken != (progress["episode"], progress["stage"]):
            self.spoken = (progress["episode"], progress["stage"])
            left = f", {_clock(left)} left" if (left := self._seconds_left(progress)) is not None else ""
            where = f"episode {progress['episode']}/{self.episodes}: {progress['stage']}"
            say(self.console, f"{where}, {progress['looks']} looks{left}")

    def episode(self, record: Record) -> None:
        self.later_seconds += 0.0 if self.first is None else seconds_of(record)
        self.first, self.last = self.first or record, record
        self.episode_started = time.perf_counter()
        if not self.live:
            say(
                self.console,
                f"episode {record['episode']}/{self.episodes}: score {record['score']:.3f}"
                f" +- {record['score_se']:.3f}{' (success)' if record['success'] else ''}, {record['looks']} looks",
            )

    def _panel(self, record: Record) -> Table:
        table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
        table.add_row("episode", f"{record['episode']} of {self.episodes}")
        table.add_row("stage", record["stage"])
        table.add_row("", ProgressBar(max(record["total"], 1), record["done"], width=30))
        losses = [name for name in sorted(record) if name.endswith("_loss")]
        shown = [f"{name.removesuffix('_loss')} {record[name]:.3f}" for name in losses]
        table.add_row("losses", "  ".join(shown) or "-")
        last = self.last
        table.add_row("test score", f"{last['score']:.3f} +- {last['score_se']:.3f}" if last else "-")
        table.add_row("looks", str(record["looks"]))
        spent, left = time.perf_counter() - self.started, self._seconds_left(record)
        table.add_row("time", f"{_clock(spent)} spent, {_clock(left) if left else '?'} left")
        return table

    def _seconds_left(self, record: Record) -> float | None:
        """Estimate from the mean of finished episodes; None before the first. The first also pays for compilation."""
        if self.first is None or self.last is None:
            return None
        first, last = self.first["episode"], self.last["episode"]
        mean = self.later_seconds / (last - first) if last > first else seconds_of(self.first) / first
        spent = time.perf_counter() - self.episode_started
        return max(0.0, (self.episodes - record["episode"] + 1) * mean - spent)


@contextmanager
def warnings_on(console: Console) -> Iterator[None]:
    """Show the warnings of the library between the lines of progress."""

    def show(record: logging.LogRecord) -> None:
        say(console, f"warning: {record.getMessage()}", style="yellow")

    log, handler = logging.getLogger("ctmle"), logging.Handler(logging.WARNING)
    handler.emit = show
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"


def episode_table(records: list[Record]) -> Table:
    """List the episodes of a run, one line each."""
    table = Table(title="episodes")
    for name in ("episode", "score", "+-", "successes", "imagined", "experience", "looks", "seconds"):
        table.add_column(name, justify="right")
    for r in records:
        score = f"[green]{r['score']:.3f}[/green]" if r["success"] else f"{r['score']:.3f}"
        table.add_row(
            str(r["episode"]),
            score,
            f"{r['score_se']:.3f}",
            f"{r['success_share']:.0%}",
            f"{r['imagined_score']:.3f}" if "imagined_score" in r else "-",
            f"{r['experience_seconds']:.4g} s",
            str(r["experience_looks"]),
            f"{seconds_of(r):.0f}",
        )
    return table


# Sweeps


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
        say(self.console, line)


def duration(seconds: float) -> str:
    """Spell a duration to about two digits."""
    minutes = round(seconds / 60)
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
