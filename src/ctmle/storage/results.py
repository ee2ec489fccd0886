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
def whole_folder(path: Path) -> Iterator[Path]:
    """A folder to write into; it takes its name only if everything went well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        yield aside
        aside.chmod(0o777 & ~_umask())
        aside.replace(path)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def _umask() -> int:
    """What new folders may not be; temporary ones are private."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
