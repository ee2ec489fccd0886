"""Finds what a command does by its type."""

import os
from functools import singledispatch
from pathlib import Path
from typing import Any

import jax


@singledispatch
def run(command: Any) -> None:
    raise TypeError(f"not a command: {command!r}")


def use_compilation_cache() -> None:
    """Compiled programs are kept between runs, so that a second run starts at once."""
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
        jax.config.update("jax_compilation_cache_dir", str(home / "ctmle" / "jax"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def use_threads(threads: int | None) -> None:
    """Before anything is computed: JAX reads it once. Each thread is a device, for ensembles to be spread over."""
    if threads is not None:
        os.environ["PJRT_NPROC"] = str(threads)
    jax.config.update("jax_num_cpu_devices", threads or _cores())


def _cores() -> int:
    """Those that this process may use, where the system tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
