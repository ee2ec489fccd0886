"""`ctmle reproduce`: the paper's experiments."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

import tyro

from ctmle.lab.cli.parse import parse
from ctmle.lab.cli.sweep import HowToRun
from ctmle.lab.paper.request import PaperRequest
from ctmle.settings import Finite


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


def main(arguments: list[str]) -> None:
    """Do the runs of an experiment, and write down its findings with the command that repeats them.

    The written command has no options of `HowToRun`: findings do not depend on where the runs are done.
    """
    command = parse(ReproduceCommand, arguments, "ctmle reproduce")
    from rich.console import Console

    from ctmle.lab.cli.many_runs import carry_out, report_failures
    from ctmle.lab.cli.spelled import spelled
    from ctmle.lab.paper.experiments import paper_experiment
    from ctmle.lab.paper.findings import find, write_findings
    from ctmle.lab.sweeps import Plan
    from ctmle.lab.sweeps.folder import SweepFolder

    study, console = paper_experiment(command.experiment, command.optimum), Console()
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
