"""Pictures as files, written whole, in colours that everybody can tell apart."""

from io import BytesIO
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from ctmle.storage.files import write_whole

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's, which readers with any kind of colour vision can tell apart."""


def save(figure: Figure, *paths: Path) -> None:
    """In the format that each file's ending says. The same figure gives the same bytes."""
    with plt.rc_context({"svg.hashsalt": "ctmle"}):
        for path in paths:
            picture, kind = BytesIO(), path.suffix.removeprefix(".")
            figure.savefig(picture, dpi=150, format=kind, metadata={"Date": None} if kind == "svg" else None)
            write_whole(path, picture.getvalue())
    plt.close(figure)
