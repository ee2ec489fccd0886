"""`ctmle compare`."""

import json
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from ctmle.config import CompareCommand
from ctmle.lab.cli.dispatch import run
from ctmle.lab.report.compare import compare
from ctmle.lab.sweeps.result import read_result


@run.register
def _compare(command: CompareCommand) -> None:
    if not command.runs:
        raise ValueError("give the run folders to compare, as `ctmle train` made them")
    if not command.out.endswith(".png"):
        raise ValueError(f"--out must end in .png, not {command.out!r}")
    panels = compare([read_result(path) for path in command.runs])
    from ctmle.lab.report.comparison import comparison_table, plot_comparison
    from ctmle.pictures import save

    out = Path(command.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    save(plot_comparison(panels), out)
    if command.json:
        print(json.dumps([asdict(panel) for panel in panels]))
    else:
        console = Console()
        for panel in panels:
            console.print(comparison_table(panel))
        console.print(f"picture: {out}", highlight=False)
