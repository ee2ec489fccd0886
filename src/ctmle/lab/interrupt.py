"""Ctrl-C, SIGTERM and SIGHUP: the first asks a run to stop at the next safe point, the second stops it at once."""

import os
import signal
from threading import current_thread, main_thread
from types import FrameType


class Interrupt:
    """While active, remembers the signal that asked to stop. A context manager; inactive, it can only be `ask`ed."""

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self.received: int | None = None
        self.before: dict[int, object] = {}

    def __enter__(self) -> "Interrupt":
        if current_thread() is main_thread():  # others cannot receive signals: whoever holds this can `ask`
            heard = [number for number in self.SIGNALS if signal.getsignal(number) != signal.SIG_IGN]  # as under nohup
            self.before = {number: signal.signal(number, self._receive) for number in heard}
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)  # pyright: ignore[reportArgumentType]

    def ask(self) -> None:
        """To stop at the next safe point, as SIGTERM does."""
        self.received = signal.SIGTERM

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None:
            os._exit(128 + number)
        self.received = number


class Interrupted(Exception):  # noqa: N818 - nothing went wrong
    """The run stopped where it was asked to, with a checkpoint."""

    def __init__(self, signal_number: int):
        super().__init__(f"stopped by {signal.Signals(signal_number).name}")
        self.exit_code = 128 + signal_number
