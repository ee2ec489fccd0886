"""What a process uses of the machine that it runs on, and versions. JAX is loaded no earlier than it must be."""

import hashlib
import os
import platform
import resource
import subprocess
import time
import zlib
from collections import Counter
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

PACKAGES = ("ctmle", "jax", "jaxlib", "equinox", "optax", "diffrax", "numpy")
"""Packages that have a say in a run's numbers."""

LEAST_ADDRESS_SPACE = 4_000_000_000
"""Bytes. With less, native code of JAX ends the process by itself."""

FLAGS = ("jax_threefry_partitionable", "jax_default_prng_impl", "jax_default_matmul_precision", "jax_enable_x64",
         "jax_disable_jit")  # fmt: skip
"""Settings of JAX that change random bits, precision, or the order of sums."""


def cores() -> int:
    """How many cores this process may use, which in a container or under `taskset` is fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def use_threads(threads: int | None) -> None:
    """Before anything is computed: JAX reads it once. Each thread is a device, for ensembles to be spread over."""
    import jax

    count = threads or cores()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # its threads wait for each other more than they compute
    with suppress(RuntimeError):  # a process that has computed before stays as it is
        jax.config.update("jax_num_cpu_devices", count)
        os.environ["PJRT_NPROC"] = str(count)


def numerics() -> dict[str, Any]:
    """Return what of this process and machine has a say in the last digits of a run, versions aside."""
    import jax

    flags = {name: getattr(jax.config, name) for name in ("jax_num_cpu_devices", *FLAGS)}
    devices = Counter(f"{device.platform} ({device.device_kind})" for device in _devices())
    return {
        "threads": max(1, flags.pop("jax_num_cpu_devices")),
        "devices": [f"{count} x {name}" for name, count in devices.items()],
        "processor": _processor(),
        **flags,
        "XLA_FLAGS": " ".join(sorted(set(os.environ.get("XLA_FLAGS", "").split()))),
        "source": source_digest(),
    }


def differences(made_with: dict[str, Any], versions_then: dict[str, str]) -> list[str]:
    """List what differs from the process and versions that a run was made with, in words; empty if bytes are equal."""
    now = {**numerics(), **{name: value for name, value in versions().items() if name != "commit"}}
    then = {**made_with, **versions_then}
    odd = [name for name, value in now.items() if name in then and then[name] != value]
    shown = {name: (_shown(then[name]), _shown(now[name])) for name in odd if name != "source"}
    words = [f"{name} was {before}, here {here}" for name, (before, here) in shown.items()]
    return [*words, "the source code of ctmle has changed"] if "source" in odd else words


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else repr(value) if value in ("", None) else str(value)


def check_surroundings() -> None:
    """Raise RuntimeError that names the fix if limits or variables of this process would end it without a sentence."""
    room = resource.getrlimit(resource.RLIMIT_AS)[0]
    if room != resource.RLIM_INFINITY and room < LEAST_ADDRESS_SPACE:
        raise RuntimeError(
            f"this process may use {room / 1e9:.1f} GB of address space (`ulimit -v`), and JAX needs"
            f" {LEAST_ADDRESS_SPACE / 1e9:g}: raise the limit"
        )
    if os.environ.get("JAX_DEBUG_NANS", "").lower() in ("1", "true", "on", "yes", "t", "y"):
        raise RuntimeError("JAX_DEBUG_NANS ends a run at NaN that it handles by itself: unset it")
    if os.environ.get("JAX_PLATFORMS", "").partition(",")[0] not in ("", "cpu"):
        _devices()


def _devices() -> list[Any]:
    """Return JAX's devices. Raises RuntimeError that names the fix if the platform that is asked for is not there."""
    import jax

    try:
        return jax.devices()
    except (RuntimeError, AssertionError) as error:  # the latter for a platform whose plugin is missing
        asked = os.environ.get("JAX_PLATFORMS")
        fix = f"JAX_PLATFORMS is {asked!r}: unset it, or install what it needs" if asked else "check the set-up of JAX"
        reason = next(iter(str(error).splitlines()), "its plugin is missing")
        raise RuntimeError(f"JAX cannot start ({reason}); {fix}") from error


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


@cache
def source_digest() -> str:
    """Return a digest of the source code of this package."""
    sum_, root = hashlib.sha256(), Path(__file__).resolve().parent.parent
    for path in sorted(root.rglob("*.py")):
        sum_.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return sum_.hexdigest()


def use_compilation_cache() -> None:
    """Keep compiled programs between runs, so that a second run starts at once, if there is a place for them."""
    import jax

    folder = _cache_folder()
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ and folder is not None:
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    used = getattr(jax.config, "jax_compilation_cache_dir")  # noqa: B009 - JAX declares it at run time
    if used and "://" not in used:
        with suppress(OSError):
            remove_damaged_programs(Path(used))


def remove_damaged_programs(cache: Path) -> None:
    """Remove cached programs that a killed process or a full disk cut off: JAX would never write them again.

    Only those are looked at that are newer than the last look.
    """
    checked = cache / "ctmle-checked"
    since = checked.stat().st_mtime_ns if checked.exists() else 0
    now = time.time_ns()
    for entry in os.scandir(cache):
        new = entry.name.endswith("-cache") and entry.is_file() and entry.stat().st_mtime_ns >= since
        if new and not _is_whole(Path(entry.path).read_bytes()):
            os.unlink(entry.path)
    checked.touch()
    os.utime(checked, ns=(now, now))


def _is_whole(program: bytes) -> bool:
    """Tell whether a compressed program has its end. JAX compresses with zstd where Python has it, else with zlib."""
    decompress: Any = zlib.decompress
    if program.startswith(b"\x28\xb5\x2f\xfd"):
        for module, name in (("compression.zstd", "decompress"), ("zstandard", "decompress")):
            with suppress(ImportError):
                decompress = getattr(import_module(module), name)
    try:
        return bool(decompress(program))
    except Exception:  # each library has errors of its own
        return False


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
