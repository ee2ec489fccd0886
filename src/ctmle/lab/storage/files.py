"""Files that outlive a crash: written whole or not at all, checked when they are read, one writer at a time."""

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SCHEMA = 2
"""Version of everything written here. A reader refuses all others."""

LARGEST_JSON = 10_000_000
"""Bytes. No JSON file that is written here is larger."""

on_write: Callable[[str, Path], None] = lambda stage, path: None  # noqa: E731
"""Called at each stage of a write ("begun", "opened", "half", "flushed", "renamed"): where fault tests strike."""


def write_whole(path: Path, content: bytes) -> None:
    """Write aside, flush to the disk, rename, flush the folder: a crash leaves the old file or the new one."""
    aside = path.with_name(path.name + ".part")
    on_write("begun", path)
    with aside.open("wb") as file:
        on_write("opened", path)
        half = len(content) // 2
        file.write(content[:half])
        file.flush()
        on_write("half", path)
        file.write(content[half:])
        file.flush()
        os.fsync(file.fileno())
    on_write("flushed", path)
    aside.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    on_write("renamed", path)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """With the schema's version and a checksum of all the rest."""
    content = {"schema": SCHEMA, **content}
    write_whole(path, (json.dumps({**content, "checksum": digest(content)}, indent=2) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """What `write_json` was given. Raises ValueError with the file's name, what is wrong and what to do."""
    check_regular(path, LARGEST_JSON)
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not readable JSON ({error}): restore it from a copy of the run") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} was not written by ctmle: restore it from a copy of the run")
    check_schema(path, content.pop("schema", None))
    if content.pop("checksum", None) != digest({"schema": SCHEMA, **content}):
        raise ValueError(f"{path} was changed or damaged since it was written: restore it from a copy of the run")
    return content


def check_regular(path: Path, largest: int | None = None) -> None:
    """Raises ValueError for what is no ordinary file: a pipe or a device would be read for ever."""
    if not path.exists():
        raise ValueError(f"{path} is missing: restore it from a copy of the run")
    if not path.is_file():
        raise ValueError(f"{path} is not a file: restore it from a copy of the run")
    if largest is not None and path.stat().st_size > largest:
        raise ValueError(f"{path} is larger than {largest} bytes, so it was not written by ctmle")


def check_schema(path: Path, schema: Any) -> None:
    if not isinstance(schema, int) or isinstance(schema, bool):
        raise ValueError(f"{path} has no schema version: it was not written by ctmle")
    if schema != SCHEMA:
        other = "a newer" if schema > SCHEMA else "an older"
        raise ValueError(
            f"{path} was written by {other} ctmle (schema {schema}, here {SCHEMA}): read it with that ctmle"
        )


def digest(content: Any, *more: bytes) -> str:
    """A checksum of JSON content, whatever the order of its keys, and of bytes that belong to it."""
    sum_ = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for part in more:
        sum_.update(part)
    return sum_.hexdigest()


def wait_for_writer(folder: Path, seconds: float) -> None:
    """Until nobody holds the folder's lock, but no longer than this: who was killed may take a moment to be gone."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            with only_writer(folder):
                return
        except ValueError:
            time.sleep(0.1)


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold the folder's lock. The system releases it when its owner ends, however it ends."""
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ValueError(f"another process is working on {folder}: wait for it, or stop it first") from error
        yield
