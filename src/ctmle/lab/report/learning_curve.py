"""The learning curve of a run, as a picture."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.ticker import MaxNLocator

from ctmle.lab.experiment import Evaluation
from ctmle.lab.report.pictures import save


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
    axes.axhline(evaluation.success, color="green", linewidth=1, linestyle="--", label="success")
    axes.set_xlabel("episode")
    axes.set_ylabel(f"mean reward after {evaluation.warm_up:g} s")
    axes.set_ylim(min(-0.1, *(r["score"] for r in records)), 1.02)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title(title)
    axes.legend(loc="lower right", fontsize="small")
    save(figure, path)
