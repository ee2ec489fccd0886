"""`ctmle compare`."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import tyro

from ctmle.lab.cli.parse import parse
from ctmle.settings import Part


@dataclass(frozen=True)
class CompareCommand(Part):
    """Compare runs: a table and a picture of scores against episodes and against looks.

    Means and standard errors are over the seeds of each agent; each environment and noise level has its own panel.
    """

    runs: tyro.conf.Positional[tuple[str, ...]]
    """Run folders, as `ctmle train` made them."""
    out: str = "comparison.png"
    """File for the picture."""
    json: bool = False
    """Print one JSON list instead of a table."""

    def check(self) -> None:
        if not self.runs:
            raise ValueError("give the run folders to compare, as `ctmle train` made them")
        if not self.out.endswith(".png"):
            raise ValueError(f"--out must end in .png, not {self.out!r}")


def main(arguments: list[str]) -> None:
    """Compare run folders."""
    command = parse(CompareCommand, arguments, "ctmle compare")
    from rich.console import Console

    from ctmle.lab.report.comparison import compare, comparison_table, plot_comparison
    from ctmle.lab.report.pictures import save
    from ctmle.lab.report.run_result import read_result

    panels = compare([read_result(path) for path in command.runs])
    out = Path(command.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    save(plot_comparison(panels), out)
    if command.json:
        print(json.dumps([asdict(panel) for panel in panels]))
        return
    console = Console()
    for panel in panels:
        console.print(comparison_table(panel))
    console.print(f"picture: {out}", highlight=False)
