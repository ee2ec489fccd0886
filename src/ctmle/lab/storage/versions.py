"""Versions of everything that has a say in a run's numbers."""

import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("ctmle", "jax", "jaxlib", "equinox", "optax", "diffrax", "numpy")


def versions() -> dict[str, str]:
    """Return package versions, and the commit of this code where it runs from a git checkout."""
    found = {**{name: version(name) for name in PACKAGES}, "python": platform.python_version()}
    commit = code_commit()
    return found if commit is None else {**found, "commit": commit}


def code_commit() -> str | None:
    """Return the commit that this package's source is at, "with changes" if files differ from it; None elsewhere."""
    here = Path(__file__).resolve().parent
    try:
        tracked = _git(here, "ls-files", "--error-unmatch", Path(__file__).name)
        commit = _git(here, "rev-parse", "HEAD").strip()
        changes = _git(here, "status", "--porcelain", "--", str(here.parents[1]))
    except (OSError, subprocess.SubprocessError):
        return None
    return None if not tracked else f"{commit} with changes" if changes.strip() else commit


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True, timeout=10)
    return done.stdout
