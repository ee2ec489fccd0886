"""Figures as files, written whole, elements that several figures share, and the learning curve of a run."""

from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ctmle.lab.experiment import Evaluation
from ctmle.lab.report.results import MOST_SHOWN
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


def describe(axes: Axes, title: str, x: str, y: str, whole: Literal["x", "y"] | None = None) -> None:
    """Write a title and the labels of both axes, and draw a grid; ticks of one axis may be whole numbers only."""
    axes.set(xlabel=x, ylabel=y)
    axes.set_title(title, fontsize="medium")
    axes.grid(alpha=0.3)
    if whole is not None:
        getattr(axes, f"{whole}axis").set_major_locator(MaxNLocator(integer=True))


def draw_curve(
    axes: Axes,
    x: Float[np.ndarray, " points"],
    mean: Float[np.ndarray, " points"],
    error: Float[np.ndarray, " points"] | None,
    *,
    colour: Any,
    label: str,
    floor: float = -np.inf,
) -> None:
    """Draw a mean over seeds with a band of one standard error, if it is known; lower values are drawn at `floor`."""
    if len(x) > MOST_SHOWN:
        some = np.linspace(0, len(x) - 1, MOST_SHOWN).astype(int)
        x, mean, error = x[some], mean[some], None if error is None else error[some]
    axes.plot(x, np.maximum(mean, floor), color=colour, marker="o", markersize=4, label=label)
    if error is not None:
        low, high = np.maximum(mean - error, floor), np.maximum(mean + error, floor)
        axes.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)


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


def plot_learning_curve(path: Path, title: str, evaluation: Evaluation, records: list[dict[str, Any]]) -> None:
    """Draw test scores against episodes, the scores that the agent imagined, and the line of success."""
    episodes = [r["episode"] for r in records]
    figure, axes = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    axes.errorbar(
        episodes, [r["score"] for r in records], [r["score_se"] for r in records],
        marker="o", capsize=3, label="test score (mean, standard error)",
    )  # fmt: skip
    if all("imagined_score" in r for r in records):
        axes.plot(episodes, [r["imagined_score"] for r in records], "x:", color="grey", label="imagined score")
    if evaluation.rule != "goal" and evaluation.success is not None:
        axes.axhline(evaluation.success, color="green", linewidth=1, linestyle="--", label="success")
    axes.set_xlabel("episode")
    if evaluation.rule == "return":
        axes.set_ylabel("return")
    else:
        axes.set_ylabel(f"mean reward after {evaluation.warm_up:g} s")
        axes.set_ylim(min(-0.1, *(r["score"] for r in records)), 1.02)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title(title)
    axes.legend(loc="lower right", fontsize="small")
    save(figure, path)
