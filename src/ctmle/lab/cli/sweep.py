"""Commands that do many runs: `ctmle sweep` and `ctmle reproduce`."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

from ctmle.lab.cli.parse import command_line, parse
from ctmle.lab.paper import PaperRequest
from ctmle.lab.report import say
from ctmle.settings import Count, CountFromZero, Finite, Part, Positive, typed

if TYPE_CHECKING:
    from rich.console import Console

    from ctmle.lab.report.results import RunResult
    from ctmle.lab.sweeps import Plan
    from ctmle.lab.sweeps.folder import SweepFolder

MOST_LINES = 50
"""Runs that are listed one by one."""


@dataclass(frozen=True, kw_only=True)
class HowToRun(Part):
    """Options of every command that does many runs: the machines, and the number of runs at a time."""

    out: str | None = None
    """Folder for everything: a folder for each run, and results.csv; none: runs/ and the name of the request."""
    dry_run: bool = False
    """Only list the runs, how many are finished, and how long the others may take. Writes nothing."""
    engine: Literal["local", "ray"] = "local"
    """Do the runs in processes on this machine, or on a Ray cluster."""
    address: str | None = None
    """Address of a running Ray cluster, such as 10.0.0.1:6379 or auto; none: one on this machine for this sweep."""
    workers: Count | None = None
    """Runs at a time; none: as many as the cores allow."""
    threads: Count = 1
    """Threads of each run."""
    retries: CountFromZero = 2
    """Retries of a run that failed or whose worker was lost. A run with wrong settings is not retried."""
    time_limit: Positive | None = None
    """Seconds that an attempt at a run may take. A run that takes longer stops at a checkpoint and counts as failed."""
    sweep_time_limit: Positive | None = None
    """Seconds that the sweep may take. Then all runs stop at a checkpoint; the same command continues."""
    accept_different: bool = False
    """Continue runs that were begun on another machine, or with other versions, flags or code."""
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


def sweep(arguments: list[str]) -> None:
    """Do the runs that a file asks for."""
    command = parse(SweepCommand, arguments, "ctmle sweep")
    from rich.console import Console

    from ctmle.lab.sweeps.folder import SweepFolder
    from ctmle.lab.sweeps.plan_file import read_plan

    plan, console = read_plan(command.file), Console()
    folder = SweepFolder(Path(command.out or f"runs/{Path(command.file).stem}"))
    results = _carry_out(command, plan, folder, console)
    if results is not None:
        say(console, f"results: {folder.results_file} (a row per run); run folders: {folder.runs}")
        _report_failures(results, console)
        say(console, f"next: {typed('compare', folder.runs)}/*")


@dataclass(frozen=True)
class ReproduceCommand(HowToRun, PaperRequest):
    """Repeat one of the paper's experiments, and say whether these runs confirm what the paper claims.

    The experiments are:

        comparison   CT-MLE, ENODE and SAC-TaCoS on three systems at sigma = 2 (figure "comp" of the paper)
        gap          the gap that needs the fewest episodes, and how many, against sigma (figure "exp")
        width        networks of 150 to 250 units per layer on Pendulum (figure "abl-nn")
        convergence  reward error against episodes, compared with 1/sqrt(N) (figure "exp_con")

    The results are a figure, a CSV with a row per run, and a table of verdicts: the paper's claim, the estimate from
    these runs with a 95% interval, and whether they agree. Finished runs are not repeated: the same command with more
    --seeds does only the new ones. docs/reproduce.md has the definitions.
    """

    experiment: tyro.conf.Positional[Literal["comparison", "gap", "width", "convergence"]]
    """Name of the experiment."""
    optimum: Finite | None = None
    """convergence only: score to measure errors from (see `ctmle oracle`), unless a test of these runs is better."""

    def check(self) -> None:
        if len(set(self.environments)) < len(self.environments):
            raise ValueError("--environments has the same system twice: give each once")
        if self.optimum is not None and self.experiment != "convergence":
            raise ValueError(f"--optimum is only for convergence: leave it out for {self.experiment}")


def reproduce(arguments: list[str]) -> None:
    """Do the runs of an experiment, and write down its findings with the command that repeats them.

    The written command has no options of `HowToRun`: findings do not depend on where the runs are done.
    """
    command = parse(ReproduceCommand, arguments, "ctmle reproduce")
    from rich.console import Console

    from ctmle.lab.paper.findings import paper_experiment, write_findings
    from ctmle.lab.storage.files import only_writer, unwritable
    from ctmle.lab.sweeps import Plan
    from ctmle.lab.sweeps.folder import SweepFolder

    study, console = paper_experiment(command.experiment, command.optimum), Console()
    line = command_line(command, leave_out=[field.name for field in fields(HowToRun)])
    plan = Plan.of(study.runs(command), asked={"command": line})
    folder = SweepFolder(Path(command.out or f"runs/reproduce-{command.experiment}-{command.size}"))
    console.print(line, highlight=False)
    results = _carry_out(command, plan, folder, console)
    if results is None:
        return
    if any(result.status == "finished" for result in results):
        place = folder.path / "findings"
        try:
            with only_writer(folder.path):
                tables = write_findings(place, study, line, plan, results)
        except OSError as error:
            raise RuntimeError(
                f"{unwritable(error, place)}; all runs are saved, and earlier findings are intact. Fix that, then write"
                f" them with: {command_line(command)}"
            ) from error
        console.print(*tables)
        say(console, f"figure, table of runs and verdicts: {place}; run folders: {folder.runs}")
    _report_failures(results, console)


# Shared


def _carry_out(command: HowToRun, plan: "Plan", folder: "SweepFolder", console: "Console") -> "list[RunResult] | None":
    """Do every run of a plan and return the results; with --dry-run, only list the runs and return None."""
    from ctmle.lab.interrupt import Interrupted
    from ctmle.lab.report.progress import SweepProgress
    from ctmle.lab.storage.files import unwritable
    from ctmle.lab.sweeps import run_sweep
    from ctmle.lab.sweeps.engines import make_engine
    from ctmle.lab.sweeps.sweep import Limits, TimeIsUp

    engine = make_engine(command.engine, address=command.address, workers=command.workers, threads=command.threads)
    if command.dry_run:
        return _list(plan, folder, engine.workers, console)
    try:
        with SweepProgress(console) as progress:
            how: dict[str, Any] = {
                "retries": command.retries,
                "drop_checkpoints": command.drop_checkpoints,
                "accept_different": command.accept_different,
                "limits": Limits(command.time_limit, command.sweep_time_limit),
            }
            return run_sweep(plan, folder.path, engine, watchers=(progress,), **how)
    except Interrupted as stop:
        say(console, f"{stop}; everything is saved. Continue with: {command_line(command)}")
        raise
    except TimeIsUp as over:
        raise RuntimeError(f"{over}; everything is saved. Continue with: {command_line(command)}") from over
    except OSError as error:
        raise RuntimeError(
            f"{unwritable(error, folder.path)}; runs that were saved before are intact. Fix that, then continue with:"
            f" {command_line(command)}"
        ) from error


def _list(plan: "Plan", folder: "SweepFolder", workers: int, console: "Console") -> None:
    folder.check_free()
    survey = folder.survey(plan)
    for run in survey.runs[:MOST_LINES]:
        state = "finished" if run.name in survey.finished else "begun" if run.name in survey.begun else "to do"
        say(console, f"{state:<9}{run.name}")
    if len(survey.runs) > MOST_LINES:
        console.print(f"... and {len(survey.runs) - MOST_LINES} more")
    console.print(survey.prospect(workers), highlight=False, soft_wrap=True)


def _report_failures(results: "list[RunResult]", console: "Console") -> None:
    """List the failed runs with their reasons. Raises RuntimeError if there are any."""
    failed = [result for result in results if result.status == "failed"]
    for result in failed[:MOST_LINES]:
        say(console, f"failed: {result.name}: {result.reason}")
    if failed:
        raise RuntimeError(
            f"{len(failed)} of {len(results)} runs failed; the others are finished. Fix the errors above and rerun the"
            " command; only failed runs are retried"
        )
