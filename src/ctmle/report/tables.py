"""Tables as CSV files, written whole."""

import csv
from io import StringIO
from pathlib import Path
from typing import Any

from ctmle.storage.files import write_whole


def save_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    """One line per row, columns in the order of the first."""
    text = StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_whole(path, text.getvalue().encode())
