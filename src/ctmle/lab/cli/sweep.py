"""`ctmle sweep`."""

from pathlib import Path

from rich.console import Console

from ctmle.config import HowToRun, SweepCommand
from ctmle.lab.cli.dispatch import run
from ctmle.lab.cli.spelled import spelled
from ctmle.lab.interrupt import Interrupted
from ctmle.lab.sweeps.engines import make_engine
from ctmle.lab.sweeps.folder import Survey, SweepFolder
from ctmle.lab.sweeps.plan import Plan
from ctmle.lab.sweeps.plan_file import read_plan
from ctmle.lab.sweeps.progress import SweepProgress
from ctmle.lab.sweeps.result import Result
from ctmle.lab.sweeps.sweep import run_sweep

MOST_LINES = 50
"""Runs that are listed one by one."""


@run.register
def _sweep(command: SweepCommand) -> None:
    plan, console = read_plan(command.file), Console()
    folder = SweepFolder(Path(command.out or f"runs/{Path(command.file).stem}"))
    results = carry_out(command, plan, folder, console)
    if results is not None:
        _conclude(results, folder, console)


def carry_out(command: HowToRun, plan: Plan, folder: SweepFolder, console: Console) -> list[Result] | None:
    """Every run of a plan as the command asks for it, or a list of them and nothing else if it asks for that."""
    engine = make_engine(command.engine, address=command.address, workers=command.workers, threads=command.threads)
    if command.dry_run:
        folder.check_free()
        return _list(folder.survey(plan), engine.workers, console)
    try:
        with SweepProgress(console) as progress:
            return run_sweep(
                plan,
                folder.path,
                engine,
                retries=command.retries,
                drop_checkpoints=command.drop_checkpoints,
                watcher=progress,
            )
    except Interrupted as stop:
        again = spelled(command)
        console.print(f"{stop}; everything is saved. Go on with: {again}", highlight=False, soft_wrap=True)
        raise


def _list(survey: Survey, workers: int, console: Console) -> None:
    for run_ in survey.runs[:MOST_LINES]:
        state = "finished" if run_.name in survey.finished else "begun" if run_.name in survey.begun else "to do"
        console.print(f"{state:<9}{run_.name}", highlight=False, soft_wrap=True)
    if len(survey.runs) > MOST_LINES:
        console.print(f"... and {len(survey.runs) - MOST_LINES} more")
    console.print(survey.prospect(workers), highlight=False, soft_wrap=True)


def _conclude(results: list[Result], folder: SweepFolder, console: Console) -> None:
    console.print(f"results: {folder.results_file} (a row per run); run folders: {folder.runs}", highlight=False)
    report_failures(results, console)
    console.print(f"next: ctmle compare {folder.runs}/*", highlight=False)


def report_failures(results: list[Result], console: Console) -> None:
    """Raises RuntimeError if there are any, once each has been named with its reason."""
    failed = [result for result in results if result.status == "failed"]
    for result in failed[:MOST_LINES]:
        console.print(f"failed: {result.name}: {result.reason}", highlight=False, markup=False, soft_wrap=True)
    if failed:
        raise RuntimeError(
            f"{len(failed)} of {len(results)} runs failed; the others are finished. Mend what the reasons above name,"
            " then give the same command again: it goes on with those that failed"
        )
