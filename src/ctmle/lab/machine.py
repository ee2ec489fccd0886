"""What a process uses of the machine that it runs on. JAX is loaded no earlier than it must be."""

import os
from contextlib import suppress
from pathlib import Path


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
    """Compiled programs are kept between runs, so that a second run starts at once."""
    import jax

    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
        jax.config.update("jax_compilation_cache_dir", str(home / "ctmle" / "jax"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
