"""Live progress of a run: a panel on a terminal, plain lines elsewhere."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

Record = dict[str, Any]


class RunDisplay:
    """Shows episode, stage, losses, score, looks and time left. A context manager; a `Watcher` of a run."""

    def __init__(self, episodes: int, console: Console):
        self.episodes = episodes
        self.console = console
        self.records: list[Record] = []
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
            self.console.print(f"{where}, {progress['looks']} looks{left}")

    def episode(self, record: Record) -> None:
        self.records.append(record)
        self.episode_started = time.perf_counter()
        if not self.live:
            self.console.print(
                f"episode {record['episode']}/{self.episodes}: score {record['score']:.3f}"
                f" +- {record['score_se']:.3f}{' (success)' if record['success'] else ''}, {record['looks']} looks"
            )

    def _panel(self, record: Record) -> Table:
        table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
        table.add_row("episode", f"{record['episode']} of {self.episodes}")
        table.add_row("stage", record["stage"])
        table.add_row("", ProgressBar(max(record["total"], 1), record["done"], width=30))
        losses = [
            f"{name.removesuffix('_loss')} {record[name]:.3f}" for name in sorted(record) if name.endswith("_loss")
        ]
        table.add_row("losses", "  ".join(losses) or "-")
        last = self.records[-1] if self.records else None
        table.add_row("test score", f"{last['score']:.3f} +- {last['score_se']:.3f}" if last else "-")
        table.add_row("looks", str(record["looks"]))
        left = self._seconds_left(record)
        table.add_row(
            "time", f"{_clock(time.perf_counter() - self.started)} spent, {_clock(left) if left else '?'} left"
        )
        return table

    def _seconds_left(self, record: Record) -> float | None:
        """Estimate from the mean of finished episodes; None before the first. The first also pays for compilation."""
        if not self.records:
            return None
        finished = [sum(v for k, v in r.items() if k.endswith("seconds")) for r in self.records]
        first, last = self.records[0]["episode"], self.records[-1]["episode"]
        mean = sum(finished[1:]) / (last - first) if last > first else finished[0] / first
        spent = time.perf_counter() - self.episode_started
        return max(0.0, (self.episodes - record["episode"] + 1) * mean - spent)


class _Warnings(logging.Handler):
    def __init__(self, console: Console):
        super().__init__(logging.WARNING)
        self.console = console

    def emit(self, record: logging.LogRecord) -> None:
        self.console.print(f"warning: {record.getMessage()}", style="yellow", highlight=False, soft_wrap=True)


@contextmanager
def warnings_on(console: Console) -> Iterator[None]:
    """Show the warnings of the library between the lines of progress."""
    log, handler = logging.getLogger("ctmle"), _Warnings(console)
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
    for name in ("episode", "score", "+-", "successes", "imagined", "looks", "seconds"):
        table.add_column(name, justify="right")
    for r in records:
        seconds = sum(value for name, value in r.items() if name.endswith("seconds"))
        score = f"[green]{r['score']:.3f}[/green]" if r["success"] else f"{r['score']:.3f}"
        table.add_row(
            str(r["episode"]),
            score,
            f"{r['score_se']:.3f}",
            f"{r['success_share']:.0%}",
            f"{r['imagined_score']:.3f}" if "imagined_score" in r else "-",
            str(r["looks"]),
            f"{seconds:.0f}",
        )
    return table
