"""Files that outlive a crash: written whole or not at all, checked when they are read, one writer at a time.

Arrays are in safetensors files: names and numbers, nothing that could run when it is loaded. No JAX in here.
"""

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

Arrays = dict[str, np.ndarray]

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
    """Write JSON with the schema's version and a checksum of all the rest."""
    content = {"schema": SCHEMA, **content}
    write_whole(path, (json.dumps({**content, "checksum": digest(content)}, indent=2) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """Return what `write_json` was given. Raises ValueError with the file's name, what is wrong and what to do."""
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
    """Raise ValueError unless this is an ordinary file: a pipe or a device would be read for ever."""
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
    """Return a checksum of JSON content, whatever the order of its keys, and of bytes that belong to it."""
    sum_ = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for part in more:
        sum_.update(part)
    return sum_.hexdigest()


# Arrays


def write_tensors(path: Path, arrays: Arrays, about: dict[str, Any] | None = None) -> None:
    """Write arrays by name, and what JSON can hold `about` them."""
    described = {"schema": SCHEMA, **(about or {})}
    # One entry: the order of several would differ from run to run.
    metadata = {"ctmle": json.dumps({**described, "checksum": _checksum_of(described, arrays)})}
    write_whole(path, save(arrays, metadata=metadata))


def read_tensors(path: Path) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays of a file and what was said about them. Raises ValueError if it is not as it was written."""
    arrays, about = _read_safetensors(path, with_arrays=True)
    checksum = about.pop("checksum")
    if checksum != _checksum_of(about, arrays):
        raise ValueError(f"{path} was changed or damaged since it was written")
    return arrays, {key: value for key, value in about.items() if key != "schema"}


def read_about(path: Path) -> dict[str, Any]:
    """Return what was said about the arrays of a file without reading them. Their checksum is not checked."""
    return _read_safetensors(path, with_arrays=False)[1]


def _read_safetensors(path: Path, *, with_arrays: bool) -> tuple[Arrays, dict[str, Any]]:
    check_regular(path)
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()} if with_arrays else {}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, TypeError, KeyError, OverflowError, MemoryError) as error:
        raise ValueError(f"{path} is cut off, damaged or not a safetensors file ({error})") from error
    try:
        about = json.loads(metadata["ctmle"])
        schema, _ = about["schema"], about["checksum"]
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} was not written by ctmle") from error
    check_schema(path, schema)
    return arrays, about


def _checksum_of(described: dict[str, Any], arrays: Arrays) -> str:
    layout = [(name, str(array.dtype), array.shape) for name, array in sorted(arrays.items())]
    return digest([described, layout], *(arrays[name].tobytes() for name in sorted(arrays)))


# Folders


def wait_for_writer(folder: Path, seconds: float) -> None:
    """Block until nobody holds the folder's lock or `seconds` elapse: a killed process may take a moment to end."""
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


def free_folder(wanted: str | None, stem: str) -> Path:
    """Return `wanted`, which must not exist or be empty; without a wish, `stem` with a number if it is taken."""
    if wanted is None:
        return numbered(stem)
    path = Path(wanted)
    if path.is_file() or (path.is_dir() and any(path.iterdir())):
        raise ValueError(f"{path} exists already: choose another --out, or remove it first")
    return path


def numbered(stem: str) -> Path:
    """Return the first of `stem`, `stem-2`, `stem-3`, ... that does not exist."""
    path, number = Path(stem), 1
    while path.exists():
        number += 1
        path = Path(f"{stem}-{number}")
    return path


@contextmanager
def whole_folder(path: Path, *, replacing: bool = False) -> Iterator[Path]:
    """Give a folder to write into. It takes its name only if everything went well.

    A folder that has something in it is replaced only with `replacing`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        yield aside
        aside.chmod(0o777 & ~_umask())
        if replacing and path.exists():
            _exchange(aside, path)
        else:
            aside.replace(path)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def _exchange(new: Path, path: Path) -> None:
    """Replace a folder that has something in it: the old one is renamed first, and removed last."""
    old = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    path.replace(old)
    try:
        new.replace(path)
    except BaseException:
        old.replace(path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _umask() -> int:
    """Return the permissions that new folders do not get; temporary ones are private."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
