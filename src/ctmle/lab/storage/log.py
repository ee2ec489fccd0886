"""The log of a run: one JSON line per tested episode, appended and never written again.

Checkpoints hold a mark of the log, a running digest of its bytes: edited scores are noticed, equal runs have equal
logs, and a run of a million episodes writes each of its lines once. No JAX in here.
"""

import hashlib
import json
import math
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

from ctmle.lab.storage.files import check_place, open_own, open_regular

Record = dict[str, Any]

LONGEST_LINE = 1_000_000
"""Bytes. No line of a log that is written here is longer."""


@dataclass(frozen=True)
class Mark:
    """A place in a log: the records and bytes before it, and a digest of these bytes."""

    records: int = 0
    size: int = 0
    digest: str = hashlib.sha256().hexdigest()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(content: Any) -> "Mark":
        """Return the mark that `to_json` wrote. Raises ValueError for anything else."""
        kinds = {"records": int, "size": int, "digest": str}
        if not isinstance(content, dict) or {name: type(value) for name, value in content.items()} != kinds:
            raise ValueError("does not say how far its run's log was")
        return Mark(**content)


class Log:
    """Appends records to the log of a run whose lock is held."""

    def __init__(self, path: Path, mark: Mark = Mark()):
        """Continue after `mark`: what was written later is cut off. Raises ValueError if what is before was changed."""
        self.path = path
        self.records, self.size, self.sum = 0, 0, hashlib.sha256()
        self.last_episode, self.succeeded = 0, False
        for line, record in _lines(path, mark):
            self._count(line, record)
        descriptor = open_own(path, os.O_WRONLY)
        try:
            os.ftruncate(descriptor, mark.size)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    @property
    def mark(self) -> Mark:
        """The end of the log."""
        return Mark(self.records, self.size, self.sum.hexdigest())

    def append(self, *records: Record) -> None:
        """Write one JSON line per record and flush them to the disk; NaN and inf are refused."""
        lines = [(json.dumps(record, allow_nan=False) + "\n").encode() for record in records]
        check_place(self.path)
        with os.fdopen(open_own(self.path, os.O_WRONLY | os.O_APPEND), "ab") as file:
            file.write(b"".join(lines))
            file.flush()
            os.fsync(file.fileno())
        for line, record in zip(lines, records, strict=True):
            self._count(line, record)

    def _count(self, line: bytes, record: Record) -> None:
        self.records += 1
        self.size += len(line)
        self.sum.update(line)
        self.last_episode = record.get("episode", 0)
        self.succeeded = self.succeeded or record.get("success") is True


def read_records(path: Path, mark: Mark | None = None) -> Iterator[Record]:
    """List the records of a log, up to `mark` if there is one. Raises ValueError for what is no record, or was changed.

    A last line without an end is being written, or was when its process ended: it is not listed.
    """
    return (record for _, record in _lines(path, mark))


def _lines(path: Path, mark: Mark | None) -> Iterator[tuple[bytes, Record]]:
    size, sum_ = 0, hashlib.sha256()
    with open_regular(path) as file:
        for number in count(1):
            line = file.readline(LONGEST_LINE + 1) if mark is None or size < mark.size else b""
            if not line.endswith(b"\n") and len(line) <= LONGEST_LINE:
                break
            size += len(line)
            sum_.update(line)
            if mark is not None and size >= mark.size and sum_.hexdigest() != mark.digest:
                break
            yield line, _parsed(path, number, line)
    if mark is not None and (size, sum_.hexdigest()) != (mark.size, mark.digest):
        raise ValueError(f"{path} was changed since its run wrote it: restore it from a copy of the run")


def _parsed(path: Path, number: int, line: bytes) -> Record:
    def refuse(constant: str) -> Any:
        raise ValueError(f"{constant} is no number of a log")

    def finite(text: str) -> float:
        number = float(text)
        return number if math.isfinite(number) else refuse(text)

    try:
        short = len(line) <= LONGEST_LINE
        content = json.loads(line, parse_constant=refuse, parse_float=finite) if short else None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}, line {number}, is damaged ({error}): restore it from a copy") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path}, line {number}, was not written by ctmle: restore it from a copy")
    return content
