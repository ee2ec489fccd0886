"""Figures of `ctmle exact`."""

from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from ctmle.theory.exact.study import (
    EQUAL_LOOKS,
    CaseResult,
    mean_and_half_width,
    slope,
    wilson,
    worst_case,
    worst_rows,
)

SMALLEST = 1e-6
"""Lower limit of regrets on logarithmic axes."""


def plot_results(results: list[CaseResult], delta: float) -> dict[str, Figure]:
    """Draw all figures, by name. The figure of separations needs a class with several of them."""
    episodes = [r for r in results if r.case.study == "episodes"]
    figures = {
        "regret": plot_regret(episodes),
        "confidence": plot_confidence(episodes, delta),
        "gap": plot_gaps([r for r in results if r.case.study == "gap"]),
    }
    return figures | ({"separation": plot_separations(episodes)} if len(episodes[0].case.separations) > 1 else {})


def plot_regret(results: list[CaseResult]) -> Figure:
    """Plot worst-case regret against N and against sqrt(beta sum Var), the leading term of the theorem."""
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    _regret_against_episodes(left, results)
    _regret_against_variance(right, results)
    return figure


def _regret_against_episodes(axes: Axes, results: list[CaseResult]) -> None:
    n, first, last = np.arange(1, results[0].regret.shape[-1] + 1), [], []
    for result, colour in zip(results, _colours(results), strict=True):
        mean, width, _ = worst_case(result)
        label = f"noise {result.case.noise:g}: slope {slope(mean):.2f}"
        low, middle, high = (np.maximum(curve, SMALLEST) for curve in (mean - width, mean, mean + width))
        axes.plot(n, middle, color=colour, label=label)
        axes.fill_between(n, low, high, color=colour, alpha=0.25)
        first.append(mean[0])
        last.append(mean[-1])
    late = n[n >= max(2, len(n) // 10)]
    axes.plot(late, 1.6 * max(last) * np.sqrt(late / len(n)), "k:", linewidth=1, label="slope 1/2")
    axes.set(xscale="log", yscale="log", xlabel="episodes N", ylabel=_worst("regret", results))
    axes.set_ylim(bottom=max(SMALLEST, 0.1 * min(first)))
    case = results[0].case
    axes.set_title(f"{case.model_class}, gap {case.gap:g} s, {case.looking.name}, {case.seeds} seeds")
    axes.legend(fontsize="small", loc="lower right", ncols=2, title="95% interval over seeds", title_fontsize="small")


def _regret_against_variance(axes: Axes, results: list[CaseResult]) -> None:
    rows = worst_rows(results)
    scales = [np.sqrt(row["beta"] * row["mean_variance"] * row["episodes"]) for row in rows]
    for row, scale, colour in zip(rows, scales, _colours(results), strict=True):
        width, label = row["regret"] - row["regret_low"], f"noise {row['noise']:g}"
        axes.errorbar(scale, row["regret"], width, marker="o", color=colour, capsize=3, label=label)
    ends = np.array([min(scales) / 1.5, max(scales) * 1.5])
    axes.plot(ends, ends, "k:", linewidth=1, label="regret = scale")
    axes.set(xscale="log", yscale="log", ylabel=_worst("regret after the last episode", results))
    axes.set(xlabel=r"scale: $\sqrt{\beta\,\sum_n \mathrm{Var}^{u_n}}$")
    axes.set_title("regret against the theorem's variance term")
    axes.legend(fontsize="small")


def plot_confidence(results: list[CaseResult], delta: float) -> Figure:
    """Plot the coverage of the truth up to n and the number of models that are left."""
    figure = Figure(figsize=(11, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    n = np.arange(1, results[0].regret.shape[-1] + 1)
    covered = np.concatenate([r.covers.reshape(-1, len(n)) for r in results])
    grid = np.concatenate([r.grid_covers.reshape(-1, len(n)) for r in results])
    intervals = np.array([wilson(int(k), len(covered)) for k in covered.sum(axis=0)])
    left.plot(n, covered.mean(axis=0), label=r"truth in $P_i \cap \hat P_i$ for all $i \leq n$")
    left.fill_between(n, intervals[:, 0], intervals[:, 1], alpha=0.25)
    left.plot(n, grid.mean(axis=0), "--", label=r"truth in $P_i$ for all $i \leq n$")
    left.axhline(1 - delta, color="k", linestyle=":", linewidth=1, label=rf"$1 - \delta$ = {1 - delta:g}")
    left.set(xscale="log", xlabel="episodes n", ylabel="share of runs", ylim=(min(0.85, 1 - 1.5 * delta), 1.01))
    left.set_title(f"coverage over {len(covered)} runs, beta = {results[0].beta:.3g}")
    left.legend(fontsize="small", loc="lower left")
    for result, colour in zip(results, _colours(results), strict=True):
        worst = worst_case(result)[2][-1]
        right.plot(n, result.both_size[worst].mean(axis=0), color=colour, label=f"noise {result.case.noise:g}")
        right.plot(n, result.grid_size[worst].mean(axis=0), color=colour, linestyle="--", linewidth=0.8)
    right.set(xscale="log", yscale="log", xlabel="episodes n", ylabel="models left, mean over seeds")
    right.set_title(r"size of $P_n \cap \hat P_n$ (dashed: $P_n$ alone), worst instance")
    right.legend(fontsize="small")
    return figure


def plot_gaps(results: list[CaseResult]) -> Figure:
    """Plot regret against the gap for equally expensive ways of looking, at the lowest and the highest noise.

    The axis of regrets is logarithmic if they differ by more than a factor of 8.
    """
    noises, gaps = sorted({r.case.noise for r in results}), sorted({r.case.gap for r in results})
    figure = Figure(figsize=(5.5 * len(noises), 4.4), layout="constrained")
    for axes, noise in zip(figure.subplots(1, len(noises), squeeze=False)[0], noises, strict=True):
        for looking, marker in zip(EQUAL_LOOKS, "osx", strict=True):
            rows = [r for r in worst_rows(results) if r["looking"] == looking.name and r["noise"] == noise]
            regrets = np.maximum([r["regret"] for r in rows], SMALLEST)
            widths = np.minimum([r["regret"] - r["regret_low"] for r in rows], 0.99 * regrets)
            axes.errorbar([r["gap"] for r in rows], regrets, widths, marker=marker, capsize=3, label=looking.name)
        axes.set(xscale="log", xlabel=r"gap $\Delta$ in seconds (looks per episode: 2T/$\Delta$)")
        low, high = axes.dataLim.intervaly
        if high > 8 * low:
            axes.set_yscale("log")
        else:
            axes.set_ylim(0.0, 1.35 * high)
        axes.set(ylabel=_worst("regret after the last episode", results), title=f"noise {noise:g}")
        axes.set_xticks(gaps, [f"{gap:g}" for gap in gaps])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.legend(fontsize="small", title="equal numbers of looks", title_fontsize="small")
    return figure


def plot_separations(results: list[CaseResult]) -> Figure:
    """Plot regret against the separation e; the worst e depends on the noise."""
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.subplots()
    for result, colour in zip(results, _colours(results), strict=True):
        means, widths = mean_and_half_width(result.regret[..., -1], axis=1)
        label = f"noise {result.case.noise:g}"
        axes.errorbar(result.case.separations, means, widths, marker="o", capsize=3, color=colour, label=label)
    axes.set(xscale="log", yscale="log", xlabel="separation e of the models", ylabel="regret after the last episode")
    axes.set_title("a fixed instance is hard at one noise level only")
    axes.legend(fontsize="small")
    return figure


def _colours(results: list[CaseResult]) -> Any:
    return matplotlib.colormaps["viridis"](np.linspace(0.0, 0.85, len(results)))


def _worst(what: str, results: list[CaseResult]) -> str:
    return f"{what}, worst case over e" if len(results[0].case.separations) > 1 else what
