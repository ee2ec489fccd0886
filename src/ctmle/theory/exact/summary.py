"""Numbers from outcomes: means with intervals, the worst case over separations, slopes, coverage."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from ctmle.theory.exact.sweep import Outcome

NORMAL_95 = 1.959964


@dataclass(frozen=True)
class Curve:
    """Worst mean regret over the separations after each episode, with the 95% interval of that mean over seeds."""

    mean: Float[np.ndarray, " episodes"]
    half_width: Float[np.ndarray, " episodes"]
    worst: Int[np.ndarray, " episodes"]
    """Which separation is the worst."""


def envelope(outcome: Outcome) -> Curve:
    means, widths = _mean_and_half_width(outcome.regret)
    worst = np.argmax(means, axis=0)
    episodes = np.arange(means.shape[1])
    return Curve(means[worst, episodes], widths[worst, episodes], worst)


def slope(curve: Float[np.ndarray, " episodes"]) -> float:
    """The log-log slope over the last nine tenths; 0 means that regret has stopped, 1/2 that it grows as sqrt(N)."""
    n = np.arange(1, len(curve) + 1)
    late = n >= max(2, len(curve) // 10)
    fitted = np.polyfit(np.log(n[late]), np.log(np.maximum(curve[late], 1e-12)), 1)[0]
    return round(float(fitted), 6) + 0.0  # a flat curve has slope 0, not -0


def rows(outcomes: list[Outcome]) -> list[dict[str, Any]]:
    """The table: one row per instance."""
    return [_row(outcome, i) for outcome in outcomes for i in range(len(outcome.case.separations))]


def worst_rows(outcomes: list[Outcome]) -> list[dict[str, Any]]:
    """The table of envelopes: for every case the separation with the largest regret after the last episode."""
    found = []
    for outcome in outcomes:
        curve = envelope(outcome)
        found.append({**_row(outcome, int(curve.worst[-1])), "slope": _short(slope(curve.mean))})
    return found


def _row(outcome: Outcome, i: int) -> dict[str, Any]:
    case = outcome.case
    seeds, episodes = outcome.regret.shape[1:]
    final = outcome.regret[i, :, -1]
    mean, half = _mean_and_half_width(final)
    spent = float(outcome.variance[i, :, -1].mean())
    both = outcome.grid_covers[i, :, -1] & outcome.extra_covers[i, :, -1]
    low, high = wilson(int(both.sum()), seeds)
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
        "beta": _short(outcome.beta),
        "regret": _short(mean),
        "regret_low": _short(mean - half),
        "regret_high": _short(mean + half),
        "mean_variance": _short(spent / episodes),
        "regret_over_sqrt_beta_variance": _short(mean / math.sqrt(outcome.beta * spent)) if spent > 0 else "",
        "grid_coverage": _short(outcome.grid_covers[i, :, -1].mean()),
        "random_coverage": _short(outcome.extra_covers[i, :, -1].mean()),
        "coverage": _short(both.mean()),
        "coverage_low": _short(low),
        "coverage_high": _short(high),
        "models_left": _short(outcome.both_size[i, :, -1].mean()),
        "empty_share": _short(outcome.empty[i].mean()),
    }


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """The 95% interval of a share, which stays inside [0, 1]."""
    share, z2 = successes / trials, NORMAL_95**2
    centre = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = NORMAL_95 * math.sqrt(share * (1 - share) / trials + z2 / (4 * trials**2)) / (1 + z2 / trials)
    return max(0.0, centre - half), min(1.0, centre + half)


def _mean_and_half_width(samples: Float[np.ndarray, "..."]) -> tuple[Any, Any]:
    """Over seeds: the axis before episodes, or the only one."""
    axis = -2 if samples.ndim > 1 else 0
    error = samples.std(axis=axis, ddof=1) / math.sqrt(samples.shape[axis])
    return samples.mean(axis=axis), NORMAL_95 * error


def _short(number: float) -> float:
    """Six significant digits: enough for a table, and the same on every machine."""
    return float(f"{float(number):.6g}")
