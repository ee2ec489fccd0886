"""`ctmle reproduce`."""

from dataclasses import fields
from pathlib import Path

from rich.console import Console

from ctmle.config import HowToRun, ReproduceCommand
from ctmle.lab.cli.dispatch import run
from ctmle.lab.cli.spelled import spelled
from ctmle.lab.cli.sweep import carry_out, report_failures
from ctmle.lab.paper import experiment
from ctmle.lab.paper.findings import find, write_findings
from ctmle.lab.sweeps import Plan
from ctmle.lab.sweeps.folder import SweepFolder


@run.register
def _reproduce(command: ReproduceCommand) -> None:
    """Where runs are done says nothing about what they find, so it is left out of what is written down with that."""
    study, console = experiment(command), Console()
    line = spelled(command, leave_out=[field.name for field in fields(HowToRun)])
    plan = Plan.of(study.runs(command), asked={"command": line})
    folder = SweepFolder(Path(command.out or f"runs/reproduce-{command.experiment}-{command.size}"))
    console.print(line, highlight=False)
    results = carry_out(command, plan, folder, console)
    if results is None:
        return
    if any(result.status == "finished" for result in results):
        findings = find(study, line, plan, results)
        place = write_findings(folder.path / "findings", findings)
        console.print(findings.measured.shown, findings.verdicts.shown)
        console.print(f"figure, table of runs and verdicts: {place}; run folders: {folder.runs}", highlight=False)
    report_failures(results, console)
