"""`ctmle sweep`, and the options of every command that does many runs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from ctmle.lab.cli.parse import parse
from ctmle.settings import Count, CountFromZero, Part

EngineName = Literal["local", "ray"]


@dataclass(frozen=True, kw_only=True)
class HowToRun(Part):
    """Options of every command that does many runs: the machines, and the number of runs at a time."""

    out: str | None = None
    """Folder for everything: a folder for each run, and results.csv; none: runs/ and the name of the request."""
    dry_run: bool = False
    """Only list the runs, how many are finished, and how long the others may take. Writes nothing."""
    engine: EngineName = "local"
    """Do the runs in processes on this machine, or on a Ray cluster."""
    address: str | None = None
    """Address of a running Ray cluster, such as 10.0.0.1:6379 or auto; none: one on this machine for this sweep."""
    workers: Count | None = None
    """Runs at a time; none: as many as the cores allow."""
    threads: Count = 1
    """Threads of each run."""
    retries: CountFromZero = 2
    """Retries of a run that failed or whose worker was lost. A run with wrong settings is not retried."""
    drop_checkpoints: bool = False
    """Delete the checkpoints of finished runs, which are most of their bytes. Their logs and trained parts stay, but
    `ctmle evaluate` cannot restore them."""


@dataclass(frozen=True)
class SweepCommand(HowToRun):
    """Do many runs: every combination that a file asks for, on the cores of this machine or on a Ray cluster.

    The file has [base] settings as for `ctmle train --config`; [grid] lists of values, every combination of which is
    run; [[runs]], single runs that differ from the base; [random], samples from ranges and choices. For example:

        [base]
        environment = "pendulum"
        stop_at_success = true

        [grid]
        sigma = [0.0, 2.0]
        gap = [0.125, 0.25]
        seed = [0, 1, 2]

    The same command continues a sweep that was stopped: finished runs are skipped, others continue from their
    checkpoints, and runs that were added to the file are run. See docs/scale.md.
    """

    file: tyro.conf.Positional[str]
    """File that lists the runs (.toml or .json)."""


def main(arguments: list[str]) -> None:
    """Do the runs that a file asks for."""
    command = parse(SweepCommand, arguments, "ctmle sweep")
    from rich.console import Console

    from ctmle.lab.cli.many_runs import carry_out, report_failures
    from ctmle.lab.sweeps.folder import SweepFolder
    from ctmle.lab.sweeps.plan_file import read_plan

    plan, console = read_plan(command.file), Console()
    folder = SweepFolder(Path(command.out or f"runs/{Path(command.file).stem}"))
    results = carry_out(command, plan, folder, console)
    if results is not None:
        console.print(f"results: {folder.results_file} (a row per run); run folders: {folder.runs}", highlight=False)
        report_failures(results, console)
        console.print(f"next: ctmle compare {folder.runs}/*", highlight=False)
