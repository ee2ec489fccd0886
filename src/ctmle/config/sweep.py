"""Settings of `ctmle sweep`, and of whatever else does many runs."""

from dataclasses import dataclass
from typing import Literal

import tyro

EngineName = Literal["local", "ray"]


@dataclass(frozen=True, kw_only=True)
class HowToRun:
    """Where and how many runs are done: what every command has that does them."""

    out: str | None = None
    """Folder for all of it: a folder for each run, and results.csv; none: runs/ and the name of what is asked for."""
    dry_run: bool = False
    """Only say which runs there are, how many are finished, and how long the others may take. Writes nothing."""
    engine: EngineName = "local"
    """What does the runs: processes on this machine, or a Ray cluster."""
    address: str | None = None
    """Address of a running Ray cluster, such as 10.0.0.1:6379 or auto; none: one on this machine for this sweep."""
    workers: int | None = None
    """Runs at a time; none: as many as the cores allow."""
    threads: int = 1
    """Threads of each run."""
    retries: int = 2
    """How often a run is tried again that failed or whose worker was lost. Mistakes in settings are not."""
    drop_checkpoints: bool = False
    """Of runs that are finished: saves most of their bytes. Their logs and trained parts stay, but `ctmle evaluate`
    cannot take them up again."""


@dataclass(frozen=True)
class SweepCommand(HowToRun):
    """Do many runs: every combination that a file asks for, on the cores of this machine or on a Ray cluster.

    The file has [base] settings as for `ctmle train --config`; [grid] lists of values, of which every combination is
    run; [[runs]], single runs that differ from the base; [random], samples from ranges and choices. For example:

        [base]
        environment = "pendulum"
        stop_at_success = true

        [grid]
        sigma = [0.0, 2.0]
        gap = [0.125, 0.25]
        seed = [0, 1, 2]

    The same command again goes on where a sweep was stopped: finished runs are skipped, others go on from their
    checkpoints, and what the file asks for in addition is run. docs/scale.md says more.
    """

    file: tyro.conf.Positional[str]
    """The runs that are asked for (.toml or .json)."""
