"""Findings of an experiment in one folder: figure, table of runs, verdicts, and the command that made them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from ctmle.lab.paper.base import PaperExperiment
from ctmle.lab.paper.outcomes import finished
from ctmle.lab.paper.verdict import listing
from ctmle.lab.report.pictures import save
from ctmle.lab.report.run_result import RunResult
from ctmle.lab.report.tables import Listing
from ctmle.lab.storage.files import write_json, write_whole
from ctmle.lab.storage.results import whole_folder
from ctmle.lab.storage.versions import versions
from ctmle.lab.sweeps.folder import SweepFolder
from ctmle.lab.sweeps.plan import Plan


@dataclass(frozen=True)
class Findings:
    """Everything that an experiment says about its runs."""

    command: str
    plan: Plan
    results: list[RunResult]
    measured: Listing
    verdicts: Listing
    definitions: str
    figure: Figure


def find(experiment: PaperExperiment, command: str, plan: Plan, results: list[RunResult]) -> Findings:
    """Evaluate an experiment from its results, of which at least one is finished."""
    done = finished(results)
    return Findings(
        command,
        plan,
        results,
        experiment.measured(done),
        listing(experiment.verdicts(done)),
        experiment.definitions,
        experiment.figure(done),
    )


def write_findings(path: Path, findings: Findings) -> Path:
    """Write all files or none; earlier findings are replaced."""
    made_by = {
        "command": findings.command,
        "runs": len(findings.results),
        "failed": len(findings.results) - len(finished(findings.results)),
        "seconds": round(sum(result.seconds for result in findings.results), 1),
        "versions": versions(),
    }
    with whole_folder(path, replacing=True) as folder:
        save(findings.figure, folder / "figure.png", folder / "figure.svg")
        SweepFolder(folder).write_results(findings.results, findings.plan.varying)
        write_whole(folder / "verdict.md", _page(findings, made_by).encode())
        write_json(folder / "made_by.json", made_by)
    return path


def _page(findings: Findings, made_by: dict[str, Any]) -> str:
    versions_used = ", ".join(f"{name} {version}" for name, version in made_by["versions"].items())
    failed = [f"- `{result.name}`: {result.reason}\n" for result in findings.results if result.status == "failed"]
    parts = [
        f"# {findings.command}\n",
        findings.verdicts.markdown,
        "*Agrees* and *disagrees* mean that the 95% interval lies entirely on that side; *not decided* that it covers"
        " both, or is not known. It is not known if seeds cannot show a spread: a single one, or all runs equal.\n",
        f"## Measured\n\n{findings.measured.title.capitalize()}.\n\n{findings.measured.markdown}",
        f"## Definitions\n\n{findings.definitions}\n",
        f"## Made by\n\n`{findings.command}`: {made_by['runs']} runs, {made_by['failed']} failed and left out,"
        f" {made_by['seconds']:.0f} seconds of runs in all. Versions: {versions_used}. `results.csv` has a row"
        " per run.\n",
    ]
    return "\n".join([*parts, *(["## Failed\n\n" + "".join(failed)] if failed else [])])
