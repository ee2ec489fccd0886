"""Figures as files, written whole, and elements that several figures share."""

from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ctmle.lab.report.statistics import Estimate
from ctmle.lab.storage.files import write_whole

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Colours of Okabe and Ito, which readers with any kind of colour vision can tell apart."""


def save(figure: Figure, *paths: Path) -> None:
    """Write a figure in the format of each file's suffix and close it. The same figure gives the same bytes."""
    with plt.rc_context({"svg.hashsalt": "ctmle"}):
        for path in paths:
            picture, kind = BytesIO(), path.suffix.removeprefix(".")
            figure.savefig(picture, dpi=150, format=kind, metadata={"Date": None} if kind == "svg" else None)
            write_whole(path, picture.getvalue())
    plt.close(figure)


def draw_estimate(axes: Axes, x: float, estimate: Estimate, colour: Any) -> None:
    """Draw a point with its interval, a ring if the interval is not known, or nothing if the value is not known."""
    if estimate.value is None:
        return
    if estimate.interval is None:
        ring = {"markersize": 8, "markerfacecolor": "white", "linestyle": "", "label": "interval not known"}
        axes.plot(x, estimate.value, marker="o", color=colour, **ring)
        return
    low, high = estimate.interval
    spread = [[max(0.0, estimate.value - low)], [max(0.0, high - estimate.value)]]
    axes.errorbar(x, estimate.value, spread, fmt="o", capsize=4, color=colour)


def mark_never(axes: Axes, never: int) -> None:
    """Draw a line at the number that stands for no success on an axis of episodes until success."""
    axes.axhline(never, color="grey", linestyle="--", linewidth=1)
    place = {"transform": axes.get_yaxis_transform(), "ha": "left", "va": "bottom", "fontsize": "small"}
    said = axes.text(0.02, never, "no success", color="0.35", clip_on=True, **place)
    said.set_in_layout(False)  # it may lie outside the visible range


def legend_once(axes: Axes) -> None:
    """Draw a legend that lists every label once."""
    handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    if handles:
        axes.legend(list(handles.values()), list(handles), fontsize="small")
