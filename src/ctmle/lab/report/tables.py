"""Tables as CSV files written whole, in Markdown, and on the terminal."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from rich.box import SIMPLE
from rich.table import Table

from ctmle.lab.storage.files import write_whole


def save_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write one line per row, columns in the order of the first row."""
    text = StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_whole(path, text.getvalue().encode())


@dataclass(frozen=True)
class Listing:
    """A small table of texts, for files and for the terminal."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]

    @property
    def markdown(self) -> str:
        lines = [self.columns, ("---",) * len(self.columns), *self.rows]
        return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in lines)

    @property
    def shown(self) -> Table:
        table = Table(title=self.title, title_justify="left", box=SIMPLE)
        for name in self.columns:
            table.add_column(name, overflow="fold")
        for row in self.rows:
            table.add_row(*row)
        return table
