"""Estimates with intervals from resampling: the same samples give the same interval every time."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy import stats

Samples = Float[np.ndarray, "_ ..."]
"""Independent samples (runs of different seeds) along the first axis."""

Statistic = Callable[[Sequence[Samples]], float]
"""A number computed from groups of samples; NaN if it is not defined."""

RESAMPLES = 2000
LEVEL = 0.95
MOST_UNDEFINED = 0.1
"""If a statistic is not defined in a larger share of resamples, its interval is not known."""


@dataclass(frozen=True)
class Estimate:
    """A number and its interval. None means not known, never zero."""

    value: float | None
    interval: tuple[float, float] | None = None
    samples: int = 0
    """Number of samples in the smallest group that it is made from."""

    def __str__(self) -> str:
        if self.value is None:
            return "not known"
        if self.interval is None:
            return f"{self.value:.3g} (interval not known)"
        low, high = self.interval
        return f"{self.value:.3g} ({low:.3g} to {high:.3g})"


def bootstrap(
    groups: Sequence[Samples],
    statistic: Statistic,
    *,
    bounds: tuple[float, float] = (-math.inf, math.inf),
    resamples: int | None = None,
    seed: int = 0,
) -> Estimate:
    """Estimate a statistic with its 95% interval by the stratified bootstrap, which resamples each group by itself.

    The interval is the percentile interval, stretched for few samples. It is not known if samples cannot show a
    spread: a single one in its group, or all of them equal.
    """
    fewest = min((len(group) for group in groups), default=0)
    if fewest == 0:
        return Estimate(None)
    value = statistic(groups)
    if not math.isfinite(value):
        return Estimate(None, samples=fewest)
    if fewest == 1 or np.ptp(np.concatenate([group.ravel() for group in groups])) == 0:
        return Estimate(value, samples=fewest)
    random, resamples = np.random.default_rng(seed), resamples or RESAMPLES
    drawn = [group[random.integers(len(group), size=(resamples, len(group)))] for group in groups]
    found = np.array([statistic(resample) for resample in zip(*drawn, strict=True)])
    defined = found[np.isfinite(found)]
    if len(defined) < (1 - MOST_UNDEFINED) * resamples:
        return Estimate(value, samples=fewest)
    low, high = value + _stretch(groups) * (np.quantile(defined, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]) - value)
    return Estimate(value, (float(max(low, bounds[0])), float(min(high, bounds[1]))), fewest)


def _stretch(groups: Sequence[Samples]) -> float:
    """Ratio of the t-interval of a mean of few normal samples to the spread of its resampled means.

    Resampling n samples shows (n - 1) / n of their variance, and normal quantiles replace Student's (Hesterberg, 2015,
    *What Teachers Should Know about the Bootstrap*). `benchmarks/intervals.py` measures how well it covers.
    """
    fewest, freedom = min(map(len, groups)), sum(len(group) - 1 for group in groups)
    quantiles = stats.t.ppf((1 + LEVEL) / 2, freedom) / stats.norm.ppf((1 + LEVEL) / 2)
    return math.sqrt(fewest / (fewest - 1)) * float(quantiles)


def standard_error(each: Float[np.ndarray, "seeds points"]) -> Float[np.ndarray, " points"] | None:
    """Standard error over seeds of the mean at each point; None for a single seed."""
    return each.std(axis=0, ddof=1) / len(each) ** 0.5 if len(each) > 1 else None


def interquartile_mean(samples: Float[np.ndarray, "..."]) -> float:
    """Mean without the lowest and the highest quarter; with fewer than four samples, the mean of all.

    See Agarwal et al. (2021), *Deep Reinforcement Learning at the Edge of the Statistical Precipice*. It is
    scipy.stats.trim_mean(samples, 0.25), which takes 40 times as long on few samples, and resampling calls it often.
    """
    ordered = np.sort(samples, axis=None)
    cut = len(ordered) // 4
    return float(ordered[cut : len(ordered) - cut].mean())


def probability_of_improvement(ours: Float[np.ndarray, " ours"], theirs: Float[np.ndarray, " theirs"]) -> float:
    """Share of pairs in which one of ours is higher than one of theirs; ties count half."""
    difference = ours[:, None] - theirs[None, :]
    return float(((difference > 0) + 0.5 * (difference == 0)).mean())


def slope(x: Float[np.ndarray, " points"], y: Float[np.ndarray, " points"]) -> float:
    """Slope of the least-squares line; NaN if x does not vary."""
    return float(np.polyfit(x, y, 1)[0]) if np.ptp(x) > 0 else float("nan")


def log_log_slope(x: Float[np.ndarray, " points"], y: Float[np.ndarray, " points"]) -> float:
    """Exponent p of the power law y = c x^p that fits best in logarithms. Points with y <= 0 are left out."""
    positive = y > 0
    return slope(np.log(x[positive]), np.log(y[positive])) if positive.sum() > 1 else float("nan")


def spearman(x: Float[np.ndarray, " points"], y: Float[np.ndarray, " points"]) -> float:
    """Rank correlation: 1 if y always rises with x, -1 if it always falls; NaN if one of them does not vary."""
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    return float(stats.spearmanr(x, y).statistic)  # pyright: ignore[reportAttributeAccessIssue]
