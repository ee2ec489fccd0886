"""The pictures of `ctmle exact`."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from ctmle.pictures import save
from ctmle.theory.exact.cases import EQUAL_LOOKS
from ctmle.theory.exact.summary import envelope, slope, wilson, worst_rows
from ctmle.theory.exact.sweep import Outcome

SMALLEST = 1e-6
"""Regret below this is drawn as this, where an axis is logarithmic."""


def plot_all(folder: Path, outcomes: list[Outcome], delta: float) -> None:
    episodes = [o for o in outcomes if o.case.study == "episodes"]
    plot_regret(folder / "regret.png", episodes)
    plot_confidence(folder / "confidence.png", episodes, delta)
    plot_gaps(folder / "gap.png", [o for o in outcomes if o.case.study == "gap"])
    if len(episodes[0].case.separations) > 1:
        plot_separations(folder / "separation.png", episodes)


def plot_regret(path: Path, outcomes: list[Outcome]) -> None:
    """Worst-case regret against N, and against sqrt(beta sum Var): the leading term of the theorem."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    _regret_against_episodes(left, outcomes)
    _regret_against_variance(right, outcomes)
    save(figure, path)


def _regret_against_episodes(axes: Axes, outcomes: list[Outcome]) -> None:
    n = np.arange(1, outcomes[0].regret.shape[-1] + 1)
    for outcome, colour in zip(outcomes, _colours(outcomes), strict=True):
        curve = envelope(outcome)
        label = f"noise {outcome.case.noise:g}: slope {slope(curve.mean):.2f}"
        axes.plot(n, np.maximum(curve.mean, SMALLEST), color=colour, label=label)
        low, high = curve.mean - curve.half_width, curve.mean + curve.half_width
        axes.fill_between(n, np.maximum(low, SMALLEST), np.maximum(high, SMALLEST), color=colour, alpha=0.25)
    top = max(envelope(outcome).mean[-1] for outcome in outcomes)
    late = n[n >= max(2, len(n) // 10)]
    axes.plot(late, 1.6 * top * np.sqrt(late / len(n)), "k:", linewidth=1, label="slope 1/2")
    axes.set(xscale="log", yscale="log", xlabel="episodes N", ylabel=_worst("regret", outcomes))
    axes.set_ylim(bottom=max(SMALLEST, 0.1 * min(envelope(outcome).mean[0] for outcome in outcomes)))
    axes.set_title(_title(outcomes[0]))
    axes.legend(fontsize="small", loc="lower right", ncols=2, title="95% interval over seeds", title_fontsize="small")


def _regret_against_variance(axes: Axes, outcomes: list[Outcome]) -> None:
    rows = worst_rows(outcomes)
    scales = [np.sqrt(row["beta"] * row["mean_variance"] * row["episodes"]) for row in rows]
    for row, scale, colour in zip(rows, scales, _colours(outcomes), strict=True):
        width, label = row["regret"] - row["regret_low"], f"noise {row['noise']:g}"
        axes.errorbar(scale, row["regret"], width, marker="o", color=colour, capsize=3, label=label)
    ends = np.array([min(scales) / 1.5, max(scales) * 1.5])
    axes.plot(ends, ends, "k:", linewidth=1, label="regret = scale")
    axes.set(xscale="log", yscale="log", ylabel=_worst("regret after the last episode", outcomes))
    axes.set(xlabel=r"scale: $\sqrt{\beta\,\sum_n \mathrm{Var}^{u_n}}$")
    axes.set_title("regret against the theorem's variance term")
    axes.legend(fontsize="small")


def plot_confidence(path: Path, outcomes: list[Outcome], delta: float) -> None:
    """Coverage of the truth up to n, and how many models are left."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    covered = np.concatenate([(o.grid_covers & o.extra_covers).reshape(-1, o.regret.shape[-1]) for o in outcomes])
    grid = np.concatenate([o.grid_covers.reshape(-1, o.regret.shape[-1]) for o in outcomes])
    n = np.arange(1, covered.shape[1] + 1)
    intervals = np.array([wilson(int(k), len(covered)) for k in covered.sum(axis=0)])
    left.plot(n, covered.mean(axis=0), label=r"truth in $P_i \cap \hat P_i$ for all $i \leq n$")
    left.fill_between(n, intervals[:, 0], intervals[:, 1], alpha=0.25)
    left.plot(n, grid.mean(axis=0), "--", label=r"truth in $P_i$ for all $i \leq n$")
    left.axhline(1 - delta, color="k", linestyle=":", linewidth=1, label=rf"$1 - \delta$ = {1 - delta:g}")
    left.set(xscale="log", xlabel="episodes n", ylabel="share of runs", ylim=(min(0.85, 1 - 1.5 * delta), 1.01))
    left.set_title(f"coverage over {len(covered)} runs, beta = {outcomes[0].beta:.3g}")
    left.legend(fontsize="small", loc="lower left")
    for outcome, colour in zip(outcomes, _colours(outcomes), strict=True):
        worst = int(envelope(outcome).worst[-1])
        right.plot(n, outcome.both_size[worst].mean(axis=0), color=colour, label=f"noise {outcome.case.noise:g}")
        right.plot(n, outcome.grid_size[worst].mean(axis=0), color=colour, linestyle="--", linewidth=0.8)
    right.set(xscale="log", yscale="log", xlabel="episodes n", ylabel="models left, mean over seeds")
    right.set_title(r"size of $P_n \cap \hat P_n$ (dashed: $P_n$ alone), worst instance")
    right.legend(fontsize="small")
    save(figure, path)


def plot_gaps(path: Path, outcomes: list[Outcome]) -> None:
    """Regret against the gap for ways of looking that cost the same, at the lowest and the highest noise."""
    noises = sorted({o.case.noise for o in outcomes})
    figure, panels = plt.subplots(1, len(noises), figsize=(5.5 * len(noises), 4.4), layout="constrained", squeeze=False)
    for axes, noise in zip(panels[0], noises, strict=True):
        for looking, marker in zip(EQUAL_LOOKS, "osx", strict=True):
            rows = [r for r in worst_rows(outcomes) if r["looking"] == looking.name and r["noise"] == noise]
            _errorbar(axes, rows, marker, looking.name)
        axes.set(xscale="log", xlabel=r"gap $\Delta$ in seconds (looks per episode: 2T/$\Delta$)")
        _spread_out(axes)
        axes.set(ylabel=_worst("regret after the last episode", outcomes), title=f"noise {noise:g}")
        gaps = sorted({o.case.gap for o in outcomes})
        axes.set_xticks(gaps, [f"{gap:g}" for gap in gaps])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.legend(fontsize="small", title="equal numbers of looks", title_fontsize="small")
    save(figure, path)


def plot_separations(path: Path, outcomes: list[Outcome]) -> None:
    """Regret against the separation e: the worst e moves with the noise."""
    figure, axes = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
    for outcome, colour in zip(outcomes, _colours(outcomes), strict=True):
        final = outcome.regret[..., -1]
        width = 1.96 * final.std(axis=1, ddof=1) / np.sqrt(final.shape[1])
        label = f"noise {outcome.case.noise:g}"
        axes.errorbar(
            outcome.case.separations, final.mean(axis=1), width, marker="o", capsize=3, color=colour, label=label
        )
    axes.set(xscale="log", yscale="log", xlabel="separation e of the models", ylabel="regret after the last episode")
    axes.set_title("a fixed instance is hard at one noise level only")
    axes.legend(fontsize="small")
    save(figure, path)


def _errorbar(axes: Axes, rows: list[dict[str, Any]], marker: str, label: str) -> None:
    regrets = np.maximum([r["regret"] for r in rows], SMALLEST)
    widths = [min(r["regret"] - r["regret_low"], 0.99 * regret) for r, regret in zip(rows, regrets, strict=True)]
    axes.errorbar([r["gap"] for r in rows], regrets, widths, marker=marker, capsize=3, label=label)


def _spread_out(axes: Axes) -> None:
    """From zero where the numbers are alike, logarithmic where they are not."""
    low, high = axes.dataLim.intervaly
    if high > 8 * low:
        axes.set_yscale("log")
    else:
        axes.set_ylim(0.0, 1.35 * high)


def _colours(outcomes: list[Outcome]) -> Any:
    return plt.get_cmap("viridis")(np.linspace(0.0, 0.85, len(outcomes)))


def _worst(what: str, outcomes: list[Outcome]) -> str:
    return f"{what}, worst case over e" if len(outcomes[0].case.separations) > 1 else what


def _title(outcome: Outcome) -> str:
    case = outcome.case
    return f"{case.model_class}, gap {case.gap:g} s, {case.looking.name}, {case.seeds} seeds"
