"""What each setting is worth: experience to a first success by what differs from the default, over seeds.

    python benchmarks/ablation.py runs/ablation/runs/*

Prints a table in Markdown with a row for every combination of options that differ from the default, and for each
system how many runs succeeded and the experience of the first policy that did: its median over runs (those without a
success count as infinite), then that of each run in the order of the seeds.
"""

import argparse
import math
from typing import Any

import numpy as np

from ctmle.lab.experiment import start
from ctmle.lab.report.results import RunResult, by_system, grouped, read_result
from ctmle.options import flat, variant_options
from ctmle.settings import spelled

SHARED = {"environment", "agent", "preset", "seed", "sigma", "episodes", "stop_at_success", "threads", "out"}
"""Options that runs may differ in without being listed for it."""


def difference(settings: dict[str, Any]) -> str:
    """Return the options that differ from the default of the same system, as they are typed."""
    origin = start(settings["environment"], settings["agent"], settings["preset"])
    base, others, words = flat(origin), variant_options(origin), []
    for name, value in settings.items():
        value = tuple(value) if isinstance(value, list) else value
        if name in SHARED or base.get(name) == value:
            continue
        if isinstance(value, bool):
            words.append(spelled(name if value else f"no_{name}"))
        elif name in base or name not in others or others[name].value != value:
            words.append(f"{spelled(name)} {' '.join(map(str, value)) if isinstance(value, tuple) else value}")
    return " ".join(words) or "default"


def worth(results: list[RunResult]) -> str:
    """Describe the experience to success of some runs."""
    ordered = sorted(results, key=lambda result: result.settings["seed"])
    seconds = [math.inf if r.seconds_to_success is None else r.seconds_to_success for r in ordered]
    reached, each = sum(map(math.isfinite, seconds)), " ".join(_seconds(value) for value in seconds)
    return f"{reached} of {len(seconds)}: {_seconds(float(np.median(seconds)))} s ({each})"


def _seconds(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", help="run folders")
    results = [read_result(path) for path in parser.parse_args().runs]
    systems = by_system(results)
    print("| what differs |" + "".join(f" {system} |" for system in systems))
    print("|---|" + "---|" * len(systems))
    for label, runs in grouped(results, difference).items():
        found = by_system(runs)
        print(f"| `{label}` |" + "".join(f" {worth(found[name]) if name in found else ''} |" for name in systems))


if __name__ == "__main__":
    main()
