"""Do the runs of a plan as a command asks for it, and report on them: shared by `ctmle sweep` and `ctmle reproduce`."""

from rich.console import Console

from ctmle.lab.cli.spelled import spelled
from ctmle.lab.cli.sweep import HowToRun
from ctmle.lab.interrupt import Interrupted
from ctmle.lab.report.run_result import RunResult
from ctmle.lab.sweeps import Plan, run_sweep
from ctmle.lab.sweeps.engines import make_engine
from ctmle.lab.sweeps.folder import Survey, SweepFolder
from ctmle.lab.sweeps.progress import SweepProgress

MOST_LINES = 50
"""Runs that are listed one by one."""


def carry_out(command: HowToRun, plan: Plan, folder: SweepFolder, console: Console) -> list[RunResult] | None:
    """Do every run of a plan and return the results; with --dry-run, only list the runs and return None."""
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
                watchers=(progress,),
            )
    except Interrupted as stop:
        again = spelled(command)
        console.print(f"{stop}; everything is saved. Continue with: {again}", highlight=False, soft_wrap=True)
        raise


def _list(survey: Survey, workers: int, console: Console) -> None:
    for run in survey.runs[:MOST_LINES]:
        state = "finished" if run.name in survey.finished else "begun" if run.name in survey.begun else "to do"
        console.print(f"{state:<9}{run.name}", highlight=False, soft_wrap=True)
    if len(survey.runs) > MOST_LINES:
        console.print(f"... and {len(survey.runs) - MOST_LINES} more")
    console.print(survey.prospect(workers), highlight=False, soft_wrap=True)


def report_failures(results: list[RunResult], console: Console) -> None:
    """List the failed runs with their reasons. Raises RuntimeError if there are any."""
    failed = [result for result in results if result.status == "failed"]
    for result in failed[:MOST_LINES]:
        console.print(f"failed: {result.name}: {result.reason}", highlight=False, markup=False, soft_wrap=True)
    if failed:
        raise RuntimeError(
            f"{len(failed)} of {len(results)} runs failed; the others are finished. Fix the errors above and rerun the"
            " command; only failed runs are retried"
        )
