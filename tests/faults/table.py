"""Every attack class, two at a time, and one table: class, tried, survived, failed, seconds.

    python tests/faults/table.py [--only NAME ...]        (`make faults`)

A new class is a module here with `attack(...) -> Tally`, and a line in ATTACKS. Exit code 1 if anything failed.
"""

import argparse
import importlib
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tally import Tally  # pyright: ignore[reportMissingImports]

AT_A_TIME = 2
"""Classes that run at the same time: one for each core of a small machine."""


@dataclass(frozen=True)
class Attack:
    """An attack class: its name in the table, its module, and the options of its long version."""

    name: str
    module: str
    options: dict[str, Any] = field(default_factory=dict)


ATTACKS = (
    Attack("kills of runs, all agents", "kills", {"kills": 80}),
    Attack("damaged files", "mutants", {"mutants": 3000}),
    Attack("a thousand tiny runs", "many_runs", {"runs": 1000}),
    Attack("kills of sweeps", "sweep_kills", {"kills": 40}),
    Attack("kills of reproduce", "findings_kills"),
    Attack("I/O errors, every operation", "io_errors"),
    Attack("full disks, short memory, caches", "disks"),
    Attack("logs of a million episodes", "long_logs", {"episodes": 1_000_000}),
    Attack("mistakes in commands and settings", "mistakes"),
    Attack("nonsense given to observe", "observes"),
    Attack("simultaneous starts", "starts", {"rounds": 10}),
    Attack("links in strangers' folders", "links"),
)
"""The longest first, so that no core is left alone with one at the end."""


def in_a_process(attack: Attack) -> tuple[Attack, Tally, float]:
    """Run an attack class in a process of its own."""
    started = time.monotonic()
    command = [sys.executable, __file__, "--alone", attack.module]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    lines = done.stdout.splitlines()
    ended = done.returncode == 0 and lines
    tally = Tally(**json.loads(lines[-1])) if ended else Tally(1, [f"ended with code {done.returncode}"])
    print(
        f"{attack.name}: tried {tally.tried}, failed {len(tally.failures)}  {tally.note}", file=sys.stderr, flush=True
    )
    return attack, tally, time.monotonic() - started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", metavar="MODULE", help="these classes alone")
    parser.add_argument("--alone", metavar="MODULE", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    known = {attack.module: attack for attack in ATTACKS}
    if arguments.alone:
        found = importlib.import_module(arguments.alone).attack(**known[arguments.alone].options)
        print(json.dumps(asdict(found)))
        return 0
    chosen = [known[name] for name in arguments.only] if arguments.only else ATTACKS
    started = time.monotonic()
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        results = list(pool.map(in_a_process, chosen))
    for attack, tally, _ in results:
        for failure in tally.failures:
            print(f"{attack.name}: {failure}")
    print(f"| {'attack class':<34} | {'tried':>6} | {'survived':>8} | {'failed':>6} | {'seconds':>7} |")
    print(f"|{'-' * 36}|{'-' * 7}:|{'-' * 9}:|{'-' * 7}:|{'-' * 8}:|")
    for attack, tally, seconds in results:
        failed = len(tally.failures)
        print(f"| {attack.name:<34} | {tally.tried:>6} | {tally.tried - failed:>8} | {failed:>6} | {seconds:>7.0f} |")
    tried, failed = sum(t.tried for _, t, _ in results), sum(len(t.failures) for _, t, _ in results)
    whole = time.monotonic() - started
    print(f"| {'all':<34} | {tried:>6} | {tried - failed:>8} | {failed:>6} | {whole:>7.0f} |")
    return int(failed > 0)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    sys.exit(main())
