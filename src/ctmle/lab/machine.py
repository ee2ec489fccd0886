"""What a process uses of the machine that it runs on, and versions. JAX is loaded no earlier than it must be."""

import os
import platform
import subprocess
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("ctmle", "jax", "jaxlib", "equinox", "optax", "diffrax", "numpy")
"""Packages that have a say in a run's numbers."""


def cores() -> int:
    """How many cores this process may use, which in a container or under `taskset` is fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def use_threads(threads: int | None) -> None:
    """Before anything is computed: JAX reads it once. Each thread is a device, for ensembles to be spread over."""
    import jax

    if threads is not None:
        os.environ["PJRT_NPROC"] = str(threads)
    with suppress(RuntimeError):  # a process that has computed before stays as it is
        jax.config.update("jax_num_cpu_devices", threads or cores())


def use_compilation_cache() -> None:
    """Keep compiled programs between runs, so that a second run starts at once, if there is a place for them."""
    import jax

    folder = _cache_folder()
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ and folder is not None:
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def _cache_folder() -> Path | None:
    """Return a folder of this user's that can be written to; None in a container without one."""
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ctmle" / "jax"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # the latter if this user has no home
        return None
    return folder if os.access(folder, os.W_OK) else None


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
        changes = _git(here, "status", "--porcelain", "--", str(here.parent))
    except (OSError, subprocess.SubprocessError):
        return None
    return None if not tracked else f"{commit} with changes" if changes.strip() else commit


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True, timeout=10)
    return done.stdout
