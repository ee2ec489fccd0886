"""`ctmle sweep`."""

import shlex
from dataclasses import fields
from itertools import chain
from pathlib import Path

from rich.console import Console

from ctmle.checks import option
from ctmle.commands.dispatch import run
from ctmle.config import SweepCommand
from ctmle.interrupt import Interrupted
from ctmle.sweeps.engines import make_engine
from ctmle.sweeps.folder import Survey, SweepFolder
from ctmle.sweeps.plan_file import read_plan
from ctmle.sweeps.progress import SweepProgress
from ctmle.sweeps.result import Result
from ctmle.sweeps.sweep import run_sweep

MOST_LINES = 50
"""Runs that are listed one by one."""


@run.register
def _sweep(command: SweepCommand) -> None:
    plan, console = read_plan(command.file), Console()
    folder = SweepFolder(Path(command.out or f"runs/{Path(command.file).stem}"))
    engine = make_engine(command.engine, address=command.address, workers=command.workers, threads=command.threads)
    if command.dry_run:
        folder.check_free()
        return _list(folder.survey(plan), engine.workers, console)
    try:
        with SweepProgress(console) as progress:
            results = run_sweep(
                plan,
                folder.path,
                engine,
                retries=command.retries,
                drop_checkpoints=command.drop_checkpoints,
                watcher=progress,
            )
    except Interrupted as stop:
        console.print(f"{stop}; everything is saved. Go on with: {_again(command)}", highlight=False, soft_wrap=True)
        raise
    return _conclude(results, folder, console)


def _list(survey: Survey, workers: int, console: Console) -> None:
    for run_ in survey.runs[:MOST_LINES]:
        state = "finished" if run_.name in survey.finished else "begun" if run_.name in survey.begun else "to do"
        console.print(f"{state:<9}{run_.name}", highlight=False, soft_wrap=True)
    if len(survey.runs) > MOST_LINES:
        console.print(f"... and {len(survey.runs) - MOST_LINES} more")
    console.print(survey.prospect(workers), highlight=False, soft_wrap=True)


def _again(command: SweepCommand) -> str:
    """The command line that asks for the same."""
    given = [(f.name, getattr(command, f.name)) for f in fields(command) if getattr(command, f.name) != f.default]
    options = [[option(name)] if value is True else [option(name), str(value)] for name, value in given[1:]]
    return shlex.join(["ctmle", "sweep", command.file, *chain.from_iterable(options)])


def _conclude(results: list[Result], folder: SweepFolder, console: Console) -> None:
    failed = [result for result in results if result.status == "failed"]
    for result in failed[:MOST_LINES]:
        console.print(f"failed: {result.name}: {result.reason}", highlight=False, markup=False, soft_wrap=True)
    console.print(f"results: {folder.results_file} (a row per run); run folders: {folder.runs}", highlight=False)
    if failed:
        raise RuntimeError(
            f"{len(failed)} of {len(results)} runs failed; the others are finished. Mend what the reasons above name,"
            " then give the same command again: it goes on with those that failed"
        )
    console.print(f"next: ctmle compare {folder.runs}/*", highlight=False)
