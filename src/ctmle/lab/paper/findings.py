"""Findings of an experiment in one folder: figure, table of runs, verdicts, and the command that made them."""

from pathlib import Path
from typing import Any

from rich.table import Table

from ctmle.lab.machine import versions
from ctmle.lab.paper import agents, convergence, gap, width
from ctmle.lab.paper.base import PaperExperiment, Verdict
from ctmle.lab.report.pictures import save
from ctmle.lab.report.results import RunResult, finished, markdown, text_table
from ctmle.lab.storage.files import whole_folder, write_json, write_whole
from ctmle.lab.sweeps.folder import SweepFolder
from ctmle.lab.sweeps.plan import Plan


def paper_experiment(name: str, optimum: float | None = None) -> PaperExperiment:
    """Return an experiment; `optimum` is the score that errors of `convergence` are measured from."""
    experiments = {"comparison": agents.EXPERIMENT, "gap": gap.EXPERIMENT, "width": width.EXPERIMENT}
    return convergence.experiment(optimum) if name == "convergence" else experiments[name]


def write_findings(
    path: Path, experiment: PaperExperiment, command: str, plan: Plan, results: list[RunResult]
) -> tuple[Table, Table]:
    """Evaluate an experiment from its results, of which at least one is finished, and return its two tables.

    All files are written or none; earlier findings are replaced.
    """
    done = finished(results)
    measured, verdicts = experiment.measured(done), verdict_table(experiment.verdicts(done))
    made_by = {
        "command": command,
        "runs": len(results),
        "failed": len(results) - len(done),
        "seconds": round(sum(result.seconds for result in results), 1),
        "versions": versions(),
    }
    page = _page(made_by, measured, verdicts, experiment.definitions)
    failed = [f"- `{result.name}`: {result.reason}\n" for result in results if result.status == "failed"]
    if failed:
        page += "\n## Failed\n\n" + "".join(failed)
    with whole_folder(path, replacing=True) as folder:
        save(experiment.figure(done), folder / "figure.png", folder / "figure.svg")
        SweepFolder(folder).write_results(results, plan.varying)
        write_whole(folder / "verdict.md", page.encode())
        write_json(folder / "made_by.json", made_by)
    return measured, verdicts


def verdict_table(verdicts: list[Verdict]) -> Table:
    """Tabulate verdicts."""
    columns = ("the paper's claim", "what these runs say (95% interval)", "verdict", "seeds")
    return text_table("verdicts", columns, [(v.claim, v.found, v.decision, str(v.seeds)) for v in verdicts])


def _page(made_by: dict[str, Any], measured: Table, verdicts: Table, definitions: str) -> str:
    versions_used = ", ".join(f"{name} {version}" for name, version in made_by["versions"].items())
    parts = [
        f"# {made_by['command']}\n",
        markdown(verdicts),
        "*Agrees* and *disagrees* mean that the 95% interval lies entirely on that side; *not decided* that it covers"
        " both, or is not known. It is not known if seeds cannot show a spread: a single one, or all runs equal.\n",
        f"## Measured\n\n{str(measured.title).capitalize()}.\n\n{markdown(measured)}",
        f"## Definitions\n\n{definitions}\n",
        f"## Made by\n\n`{made_by['command']}`: {made_by['runs']} runs, {made_by['failed']} failed and left out,"
        f" {made_by['seconds']:.0f} seconds of runs in all. Versions: {versions_used}. `results.csv` has a row"
        " per run.\n",
    ]
    return "\n".join(parts)
