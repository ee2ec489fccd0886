"""A folder of results that appears whole or not at all."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def free_folder(wanted: str | None, stem: str) -> Path:
    """`wanted` if nothing is there yet; without a wish, `stem`, numbered until it is free."""
    if wanted is not None:
        path = Path(wanted)
        if path.is_file() or (path.is_dir() and any(path.iterdir())):
            raise ValueError(f"{path} exists already: choose another --out, or remove it first")
        return path
    path, number = Path(stem), 1
    while path.exists():
        number += 1
        path = Path(f"{stem}-{number}")
    return path


@contextmanager
def whole_folder(path: Path, *, replacing: bool = False) -> Iterator[Path]:
    """A folder to write into; it takes its name only if everything went well, and if nothing has that name yet.

    With `replacing` it takes the place of what has it.
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
    """No folder can be renamed onto one that has something in it: the old one steps aside, and is removed last."""
    old = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    path.replace(old)
    try:
        new.replace(path)
    except BaseException:
        old.replace(path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _umask() -> int:
    """What new folders may not be; temporary ones are private."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
