"""Tests run strict: shapes and types are checked at run time, and warnings are errors."""

import gc
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import jax
import pytest
from jaxtyping import install_import_hook
from xdist.scheduler import LoadScopeScheduling

# Most of a test's time would go into optimising programs that run for a moment, and into splitting them for threads.
CHEAP_COMPILATION = (
    "--xla_backend_optimization_level=0",
    "--xla_cpu_use_fusion_emitters=false",
    "--xla_cpu_parallel_codegen_split_count=1",
)
os.environ["XLA_FLAGS"] = " ".join((os.environ.get("XLA_FLAGS", ""), *CHEAP_COMPILATION))
# Processes that tests start share what is compiled. The tests' own do not: among the thousands of programs that one of
# them reads back, XLA once aborted, and we do not know why.
os.environ["JAX_COMPILATION_CACHE_DIR"] = str(Path(__file__).parent.parent / ".pytest_cache" / "jax")
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
jax.config.update("jax_compilation_cache_dir", None)
# Operations need not know which lines of Python they come from.
os.environ["JAX_TRACEBACK_IN_LOCATIONS_LIMIT"] = "0"
jax.config.update("jax_traceback_in_locations_limit", 0)
# Tracing allocates many objects that live on; looking for cycles among them took a tenth of the time.
gc.set_threshold(100_000, 50, 100)
# As the command line has them on two cores, so that what is spread over devices is spread in tests too.
jax.config.update("jax_num_cpu_devices", 2)

# Shells start background jobs with SIGINT ignored, which processes that tests interrupt would inherit.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

sys.path.insert(0, str(Path(__file__).parent / "faults"))
install_import_hook("ctmle", "beartype.beartype").__enter__()

MOST_MAPS = 40_000
FAMILIES = {
    "ct-mle": ("faults", "agent", "run", "devices", "not_finite", "corruption"),
    "enode": ("enode", "enode_run"),
    "sac-tacos": ("sac_tacos", "sac_tacos_run", "compare"),
}
"""Files whose tests run the same compiled programs. One process runs all files of a family."""
SLOWEST = (*FAMILIES["ct-mle"], "sweep_engines", *FAMILIES["enode"], "examples", "cli", "transition", "enode_parts",
           *FAMILIES["sac-tacos"], "mistakes", "check_env", "planning", "reproduce", "extending", "exact")  # fmt: skip
"""These files run first, so that no process is left alone with one of them at the end."""

# The first example of a shape pays for compilation, and a red build should be red again.
hypothesis.settings.register_profile("ctmle", deadline=None, derandomize=True, max_examples=40)
hypothesis.settings.load_profile("ctmle")


@pytest.fixture
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """For what is decided far from any limit: shapes are checked at every call."""
    monkeypatch.setattr("ctmle.lab.report.statistics.RESAMPLES", 300)


@pytest.fixture
def count_calls(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, str], Counter[str]]:
    """count_calls(owner, name) makes a function of a module, or a method of a class, count its calls from now on; if it
    is compiled, its traces. All counts are in what is returned, those of methods as "Class.name"."""
    calls: Counter[str] = Counter()

    def count(owner: Any, name: str) -> Counter[str]:
        function = getattr(owner, name)
        label = f"{owner.__name__}.{name}" if isinstance(owner, type) else name

        def counted(*arguments: Any) -> Any:
            calls[label] += 1
            return function(*arguments)

        monkeypatch.setattr(owner, name, counted)
        return calls

    return count


@pytest.fixture(autouse=True, scope="module")
def few_programs() -> Iterator[None]:
    """Forget what is compiled before it is too much: each kernel maps memory, and a process may have 65530 maps.

    No file adds more than 6000. Counting them takes longer than many a test, so it is done once for each file.
    """
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()
        gc.collect()


@pytest.fixture
def strict_dtypes() -> Iterator[None]:
    """No silent promotion of types. (Optax promotes, so tests that optimise go without.)"""
    with jax.numpy_dtype_promotion("strict"):
        yield


@pytest.fixture
def x64() -> Iterator[None]:
    """Double precision, where a test compares derivatives or small differences."""
    with jax.enable_x64(True):
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the slowest files first. The order of tests in a file stays."""
    rank = {f"test_{name}": number for number, name in enumerate(SLOWEST)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(rank)))


class FamilyScheduling(LoadScopeScheduling):
    """Gives whole families of files to a process, and other files one by one."""

    def _split_scope(self, nodeid: str) -> str:
        name = Path(nodeid.partition("::")[0]).stem.removeprefix("test_")
        return next((family for family, members in FAMILIES.items() if name in members), name)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FamilyScheduling:
    return FamilyScheduling(config, log)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what the slowest files cost, so that it is seen where the minutes of the gate go."""
    seconds: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if hasattr(report, "duration"):
                seconds[report.nodeid.split("::")[0]] += report.duration
    terminalreporter.write_line("slowest files, seconds of one core:")
    for name, spent in seconds.most_common(12):
        terminalreporter.write_line(f"  {spent:6.1f} {name}")
