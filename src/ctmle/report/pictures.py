"""Pictures as files, written whole."""

from io import BytesIO
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from ctmle.storage.files import write_whole


def save(figure: Figure, path: Path) -> None:
    picture = BytesIO()
    figure.savefig(picture, dpi=150, format="png")
    plt.close(figure)
    write_whole(path, picture.getvalue())
