"""Files that outlive a crash: written whole or not at all, checked when they are read, one writer at a time.

No JAX in here.
"""

import ctypes
import errno
import fcntl
import hashlib
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

UMASK = os.umask(0o077)
"""Permissions that new files do not get; temporary ones are private until they have their name."""
os.umask(UMASK)

SCHEMA = 3
"""Version of everything written here. A reader refuses all others."""

LARGEST_JSON = 10_000_000
"""Bytes. No JSON file that is written here is larger."""

PART = ".ctmle-part"
"""Ending of files that are being written. Nobody else uses it: the next writer removes what a killed process left."""

_held: dict[Path, int] = {}
"""Folders whose lock this process holds, with the lock's file descriptor."""


def write_whole(path: Path, content: bytes) -> None:
    """Write aside, flush to the disk, rename, flush the folder: a crash leaves the old file or the new one.

    Nothing outside the folder is touched: the file aside is new and has a random name, and where `path` is a link, the
    link is replaced and not the file that it leads to. Raises RuntimeError if the folder is not the one that is locked.
    """
    check_place(path)
    descriptor, aside = tempfile.mkstemp(prefix=f".{path.name}-", suffix=PART, dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), 0o666 & ~UMASK)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        check_place(path)
        os.replace(aside, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(aside)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_own(path: Path, flags: int) -> int:
    """Open a file that ctmle wrote, for writing. Raises ValueError for a link and for what is no ordinary file.

    A link in a folder from a stranger could lead anywhere.
    """
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise ValueError(f"{path} is not an ordinary file: remove it, and do not trust this folder") from error
        raise
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(descriptor)
        raise ValueError(f"{path} is a link or no ordinary file: remove it, and do not trust this folder")
    return descriptor


def unwritable(error: OSError, path: Path) -> str:
    """Say which path could not be written, and why."""
    return f"cannot write to {error.filename or path} ({error.strerror or error})"


def is_remnant(entry: Path) -> bool:
    """Tell whether an entry of a folder is what a process leaves that is killed before it has written anything else."""
    return entry.name == "lock" or (entry.name.startswith(".") and entry.name.endswith(PART))


def own_folder(path: Path) -> Path:
    """Return a folder inside one of ctmle's. Raises ValueError if it is a link: what is in it would be elsewhere."""
    if path.is_symlink():
        raise ValueError(f"{path} is a link: remove it, and do not trust this folder")
    return path


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write JSON with the schema's version and a checksum of all the rest."""
    content = {"schema": SCHEMA, **content}
    write_whole(path, (json.dumps({**content, "checksum": digest(content)}, indent=2) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """Return what `write_json` was given. Raises ValueError with the file's name, what is wrong and what to do."""
    with open_regular(path, LARGEST_JSON) as file:
        raw = file.read()
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not readable JSON ({error}): restore it from a copy of the run") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} was not written by ctmle: restore it from a copy of the run")
    check_schema(path, content.pop("schema", None))
    if content.pop("checksum", None) != digest({"schema": SCHEMA, **content}):
        raise ValueError(f"{path} was changed or damaged since it was written: restore it from a copy of the run")
    return content


def open_regular(path: Path, largest: int | None = None) -> BinaryIO:
    """Open an ordinary file to read. Raises ValueError at once for anything else: a pipe or a device has no end."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise ValueError(f"{path} is missing: restore it from a copy of the run") from error
    except OSError as error:
        if error.errno not in (errno.ENXIO, errno.ELOOP):  # a socket, a loop of links
            raise
        raise ValueError(f"{path} is not a file: restore it from a copy of the run") from error
    found, problem = os.fstat(descriptor), ""
    if not stat.S_ISREG(found.st_mode):
        problem = f"{path} is not a file: restore it from a copy of the run"
    elif largest is not None and found.st_size > largest:
        problem = f"{path} is larger than {largest} bytes, so it was not written by ctmle"
    if problem:
        os.close(descriptor)
        raise ValueError(problem)
    return os.fdopen(descriptor, "rb")


def check_schema(path: Path, schema: Any) -> None:
    if not isinstance(schema, int) or isinstance(schema, bool):
        raise ValueError(f"{path} has no schema version: it was not written by ctmle")
    if schema != SCHEMA:
        other = "a newer" if schema > SCHEMA else "an older"
        raise ValueError(
            f"{path} was written by {other} ctmle (schema {schema}, here {SCHEMA}): read it with that ctmle"
        )


def digest(content: Any, *more: bytes) -> str:
    """Return a checksum of JSON content, whatever the order of its keys, and of bytes that belong to it."""
    sum_ = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for part in more:
        sum_.update(part)
    return sum_.hexdigest()


# Folders


@contextmanager
def only_writer(folder: Path, patience: float = 0.0) -> Iterator[None]:
    """Hold the folder's lock. The system releases it when its owner ends, however it ends.

    Raises ValueError if another process still has it after `patience` seconds. What killed writers left half-written is
    removed.
    """
    descriptor, place = open_own(folder / "lock", os.O_RDWR | os.O_CREAT), folder.absolute()
    try:
        _lock(descriptor, folder, time.monotonic() + patience)
        _held[place] = descriptor
        check_place(place / "lock")
        for inside in (place, place / "checkpoints"):
            for half_written in [] if inside.is_symlink() else inside.glob(f".*{PART}"):
                is_folder = half_written.is_dir() and not half_written.is_symlink()
                shutil.rmtree(half_written) if is_folder else half_written.unlink()
        yield
    finally:
        if _held.get(place) == descriptor:
            del _held[place]
        os.close(descriptor)


def _lock(descriptor: int, folder: Path, until: float) -> None:
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() >= until:
                raise ValueError(f"another process is working on {folder}: wait for it, or stop it first") from error
            time.sleep(0.1)  # a blocking flock has no time limit


def check_place(path: Path) -> None:
    """Raise RuntimeError if a folder around `path` that this process has locked was moved away and replaced."""
    for folder in path.absolute().parents:
        if folder in _held:
            here, held = os.stat(folder / "lock", follow_symlinks=False), os.fstat(_held[folder])
            if (here.st_dev, here.st_ino) != (held.st_dev, held.st_ino):
                raise RuntimeError(
                    f"{folder} was moved or replaced while this process was working in it: it stopped before it wrote"
                    " anything there; what it saved before is where the folder is now"
                )


def free_folder(wanted: str | None, stem: str) -> Path:
    """Return `wanted`, which must not exist or be empty; without a wish, `stem` with a number if it is taken."""
    if wanted is None:
        return next(path for path in numbered(stem) if not path.exists())
    path = Path(wanted)
    if path.is_file() or (path.is_dir() and any(path.iterdir())):
        raise ValueError(f"{path} exists already: choose another --out, or remove it first")
    return path


def numbered(stem: str) -> Iterator[Path]:
    """List `stem`, `stem-2`, `stem-3`, ..."""
    return (Path(stem if number == 1 else f"{stem}-{number}") for number in count(1))


def new_folder(stem: str) -> Path:
    """Make the first of `stem`, `stem-2`, `stem-3`, ... that does not exist; no other process gets the same one."""
    for path in numbered(stem):
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            path.mkdir()
            return path
    raise AssertionError("unreachable: there are numbers enough")


@contextmanager
def whole_folder(path: Path, *, replacing: bool = False) -> Iterator[Path]:
    """Give a folder to write into. It takes its name only if everything went well.

    A folder that has something in it is replaced only with `replacing`: a kill leaves the old one or the new one, and
    perhaps another aside, which the next writer with the lock of the folder around removes.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{path.name}-", suffix=PART, dir=path.parent))
    try:
        yield aside
        aside.chmod(0o777 & ~UMASK)
        if replacing and path.exists():
            _exchange(aside, path)
            shutil.rmtree(aside, ignore_errors=True)
        else:
            aside.replace(path)
        sync_folder(path.parent)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


AT_FDCWD, RENAME_EXCHANGE = -100, 2
"""Constants of Linux: paths from the current folder on; exchange two names in one step."""


def _exchange(one: Path, other: Path) -> None:
    """Exchange the names of two folders in one step.

    Where the system or the file system cannot, in three: a kill between them leaves the old folder aside.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(one), os.fsencode(other)
    if hasattr(libc, "renameat2") and not libc.renameat2(AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE):
        return
    between = Path(tempfile.mkdtemp(prefix=f".{other.name}-", suffix=PART, dir=other.parent))
    other.replace(between)
    try:
        one.replace(other)
    except BaseException:
        between.replace(other)
        raise
    between.replace(one)
