"""What a few numbers say: estimates with intervals from resampling. Numpy only, and the same answer every time."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from jaxtyping import Float

Samples = Float[np.ndarray, "_ ..."]
"""Independent samples (runs of different seeds) along the first axis."""

Statistic = Callable[[Sequence[Samples]], float]
"""A number from groups of samples; NaN where it is not defined."""

RESAMPLES = 2000
LEVEL = 0.95
MOST_UNDEFINED = 0.1
"""If a statistic is not defined in a larger share of resamples, its interval is not known."""


@dataclass(frozen=True)
class Estimate:
    """A number and its interval. None stands for what is not known: never for zero."""

    value: float | None
    interval: tuple[float, float] | None = None
    samples: int = 0
    """In the smallest of the groups that it is made from."""

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
    """The statistic with its 95% interval from the stratified bootstrap: every group is resampled by itself.

    The interval is the percentile interval, stretched for few samples. It is not known where samples cannot show a
    spread: one alone in its group, or all of them equal.
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
    """How much wider the interval of a mean of few normal samples is than the spread of resampled means says.

    Resampling n samples shows (n - 1) / n of their variance, and normal quantiles take the place of Student's
    (Hesterberg, 2015, *What Teachers Should Know about the Bootstrap*). `benchmarks/intervals.py` measures the rest.
    """
    fewest, freedom = min(map(len, groups)), sum(len(group) - 1 for group in groups)
    normal = NormalDist().inv_cdf((1 + LEVEL) / 2)
    return math.sqrt(fewest / (fewest - 1)) * student_quantile((1 + LEVEL) / 2, freedom) / normal


def student_quantile(share: float, freedom: int) -> float:
    """Of Student's distribution, by its expansion in 1/freedom about the normal one: within 1% from freedom 2 on."""
    z = NormalDist().inv_cdf(share)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return sum(term / freedom**power for power, term in enumerate(terms))


def interquartile_mean(samples: Float[np.ndarray, "..."]) -> float:
    """The mean without the lowest and the highest quarter; of fewer than four samples, that of all of them.

    As in Agarwal et al. (2021), *Deep Reinforcement Learning at the Edge of the Statistical Precipice*.
    """
    ordered = np.sort(samples, axis=None)
    cut = len(ordered) // 4
    return float(ordered[cut : len(ordered) - cut].mean())


def probability_of_improvement(ours: Float[np.ndarray, " ours"], theirs: Float[np.ndarray, " theirs"]) -> float:
    """How often one of ours is higher than one of theirs; ties count half."""
    difference = ours[:, None] - theirs[None, :]
    return float(((difference > 0) + 0.5 * (difference == 0)).mean())


def slope(x: Float[np.ndarray, " points"], y: Float[np.ndarray, " points"]) -> float:
    """Of the line of least squares; NaN where x does not vary."""
    centred = x - x.mean()
    spread = float((centred**2).sum())
    return float((centred * y).sum()) / spread if spread > 0 else float("nan")


def log_log_slope(x: Float[np.ndarray, " points"], y: Float[np.ndarray, " points"]) -> float:
    """The exponent p of the power law y = c x^p that fits best in logarithms. Points with y <= 0 have none."""
    positive = y > 0
    return slope(np.log(x[positive]), np.log(y[positive])) if positive.sum() > 1 else float("nan")


def spearman(x: Float[np.ndarray, " points"], y: Float[np.ndarray, " points"]) -> float:
    """Rank correlation: 1 if y always rises with x, -1 if it always falls; NaN where one of them does not vary."""
    x, y = ranks(x), ranks(y)
    x, y = x - x.mean(), y - y.mean()
    scale = float(np.sqrt((x**2).sum() * (y**2).sum()))
    return float((x * y).sum()) / scale if scale > 0 else float("nan")


def ranks(values: Float[np.ndarray, " points"]) -> Float[np.ndarray, " points"]:
    """From 1; equal values share the mean of their ranks."""
    below = (values[None, :] < values[:, None]).sum(axis=1)
    equal = (values[None, :] == values[:, None]).sum(axis=1)
    return below + (equal + 1) / 2
