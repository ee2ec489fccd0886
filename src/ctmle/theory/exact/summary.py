"""Tables of results: means with 95% intervals, the worst case over separations, slopes, coverage."""

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import ndtri
from scipy.stats import binomtest

from ctmle.theory.exact.study import CaseResult


class Envelope(NamedTuple):
    """Worst mean regret over the separations after each episode, with the 95% interval of that mean over seeds."""

    mean: Float[np.ndarray, " episodes"]
    half_width: Float[np.ndarray, " episodes"]
    worst: Int[np.ndarray, " episodes"]
    """Index of the worst separation."""


def envelope(result: CaseResult) -> Envelope:
    means, widths = mean_and_half_width(result.regret, axis=1)
    worst = np.argmax(means, axis=0)
    episodes = np.arange(means.shape[1])
    return Envelope(means[worst, episodes], widths[worst, episodes], worst)


def slope(curve: Float[np.ndarray, " episodes"]) -> float:
    """Log-log slope over the last nine tenths: 0 if regret stops growing, 1/2 if it grows as sqrt(N)."""
    n = np.arange(1, len(curve) + 1)
    late = n >= max(2, len(curve) // 10)
    fitted = np.polyfit(np.log(n[late]), np.log(np.maximum(curve[late], 1e-12)), 1)[0]
    return round(float(fitted), 6) + 0.0  # a flat curve has slope 0, not -0


def rows(results: list[CaseResult]) -> list[dict[str, Any]]:
    """Table with one row per instance."""
    return [_row(result, i) for result in results for i in range(len(result.case.separations))]


def worst_rows(results: list[CaseResult]) -> list[dict[str, Any]]:
    """Table with one row per case: the separation with the largest regret after the last episode."""
    found = []
    for result in results:
        curve = envelope(result)
        found.append({**_row(result, int(curve.worst[-1])), "slope": _short(slope(curve.mean))})
    return found


def _row(result: CaseResult, i: int) -> dict[str, Any]:
    case = result.case
    seeds, episodes = result.regret.shape[1:]
    mean, half = mean_and_half_width(result.regret[i, :, -1], axis=0)
    spent = float(result.variance[i, :, -1].mean())
    covered = result.covers[i, :, -1]
    low, high = wilson(int(covered.sum()), seeds)
    return {
        "study": case.study,
        "class": case.model_class,
        "noise": case.noise,
        "separation": case.separations[i] if len(case.separations) > 1 else "",
        "gap": case.gap,
        "looking": case.looking.name,
        "looks_per_episode": case.looking.looks(case.gap),
        "episodes": episodes,
        "seeds": seeds,
        "beta": _short(result.beta),
        "regret": _short(mean),
        "regret_low": _short(mean - half),
        "regret_high": _short(mean + half),
        "mean_variance": _short(spent / episodes),
        "regret_over_sqrt_beta_variance": _short(mean / math.sqrt(result.beta * spent)) if spent > 0 else "",
        "grid_coverage": _short(result.grid_covers[i, :, -1].mean()),
        "random_coverage": _short(result.extra_covers[i, :, -1].mean()),
        "coverage": _short(covered.mean()),
        "coverage_low": _short(low),
        "coverage_high": _short(high),
        "models_left": _short(result.both_size[i, :, -1].mean()),
        "empty_share": _short(result.empty[i].mean()),
    }


@cache
def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Wilson's 95% interval of a share, which stays inside [0, 1]."""
    interval = binomtest(successes, trials).proportion_ci(method="wilson")
    return interval.low, interval.high


def mean_and_half_width(samples: Float[np.ndarray, "..."], axis: int) -> tuple[Any, Any]:
    """Mean over an axis of independent samples and half the width of its 95% interval."""
    error = samples.std(axis=axis, ddof=1) / math.sqrt(samples.shape[axis])
    return samples.mean(axis=axis), ndtri(0.975) * error


def _short(number: float) -> float:
    """Round to six significant digits: enough for a table, and equal on every machine."""
    return float(f"{float(number):.6g}")
