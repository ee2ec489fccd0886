"""What an experiment ends with: figure, table of runs, verdicts, and what made them, in one folder."""

from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from ctmle.lab.paper.experiment import Experiment
from ctmle.lab.paper.outcomes import finished
from ctmle.lab.paper.verdict import listing
from ctmle.lab.report.tables import Listing
from ctmle.lab.storage.files import write_json, write_whole
from ctmle.lab.storage.results import whole_folder
from ctmle.lab.storage.run_folder import versions
from ctmle.lab.sweeps import Plan, Result
from ctmle.lab.sweeps.folder import SweepFolder
from ctmle.pictures import save


@dataclass(frozen=True)
class Findings:
    """All that is said of the runs of an experiment."""

    command: str
    plan: Plan
    results: list[Result]
    measured: Listing
    verdicts: Listing
    definitions: str
    figure: Figure


def find(experiment: Experiment, command: str, plan: Plan, results: list[Result]) -> Findings:
    """Of at least one finished run."""
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
    """All files or none; those of an earlier time are replaced."""
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


def _page(findings: Findings, made_by: dict[str, object]) -> str:
    failed = [f"- `{result.name}`: {result.reason}\n" for result in findings.results if result.status == "failed"]
    parts = [
        f"# {findings.command}\n",
        findings.verdicts.markdown,
        "*Agrees* and *disagrees* mean that the 95% interval lies wholly on that side; *not decided* that it covers"
        " both, or is not known. It is not known where seeds cannot show a spread: one alone, or all runs equal.\n",
        f"## Measured\n\n{findings.measured.title.capitalize()}.\n\n{findings.measured.markdown}",
        f"## Definitions\n\n{findings.definitions}\n",
        f"## Made by\n\n`{findings.command}`: {made_by['runs']} runs, {made_by['failed']} failed and left out,"
        f" {made_by['seconds']:.0f} seconds of runs in all. Versions: {_listed(versions())}. `results.csv` has a row"
        " per run.\n",
    ]
    return "\n".join([*parts, *(["## Failed\n\n" + "".join(failed)] if failed else [])])


def _listed(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())
