"""Statistics against closed forms, exhaustive enumeration, scipy, and properties that hold for any numbers."""

import itertools

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from ctmle.lab.report.statistics import (
    Estimate,
    bootstrap,
    interquartile_mean,
    log_log_slope,
    probability_of_improvement,
    slope,
    spearman,
)

numbers = st.floats(-100, 100, allow_subnormal=False).map(lambda x: round(x, 3))
samples = st.lists(numbers, min_size=2, max_size=12).map(np.array)


def mean_of_first(groups):
    return float(groups[0].mean())


def difference_of_means(groups):
    return float(groups[0].mean() - groups[1].mean())


@given(samples)
def test_interquartile_mean_is_scipys_trimmed_mean(values):
    assert interquartile_mean(values) == pytest.approx(stats.trim_mean(values, 0.25), abs=1e-9)


def test_interquartile_mean_by_hand():
    assert interquartile_mean(np.array([0.0, 1.0, 5.0])) == 2.0  # too few to leave any out
    assert interquartile_mean(np.array([-50.0, 1.0, 3.0, 90.0])) == 2.0
    assert interquartile_mean(np.array([[9.0, 1.0], [2.0, 3.0], [4.0, 5.0], [0.0, 6.0]])) == 3.5


@given(samples, samples)
def test_probability_of_improvement_is_the_mann_whitney_statistic(ours, theirs):
    expected = stats.mannwhitneyu(ours, theirs, method="asymptotic").statistic / (len(ours) * len(theirs))
    assert probability_of_improvement(ours, theirs) == pytest.approx(expected)
    assert probability_of_improvement(theirs, ours) == pytest.approx(1 - expected)


@given(st.lists(st.tuples(st.integers(-5, 5), numbers), min_size=2, max_size=12))
def test_spearman_is_scipys_where_it_is_defined(points):
    x, y = np.array(points, float).T
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        assert np.isnan(spearman(x, y))
    else:
        assert spearman(x, y) == pytest.approx(stats.spearmanr(x, y)[0])


def test_spearman_by_hand():
    x = np.array([0.0, 0.8, 2.0])
    assert spearman(x, np.array([1.0, 10.0, 100.0])) == pytest.approx(1.0)
    assert spearman(x, np.array([3.0, 2.0, -1.0])) == pytest.approx(-1.0)
    assert spearman(x, np.array([1.0, 3.0, 2.0])) == pytest.approx(0.5)  # 1 - 6 (0 + 1 + 1) / (3 * 8)


@given(st.floats(-3, 3), st.floats(0.01, 100))
def test_a_power_law_has_its_exponent(exponent, constant):
    n = np.arange(1.0, 16.0)
    assert log_log_slope(n, constant * n**exponent) == pytest.approx(exponent, abs=1e-9)


def test_slopes_where_there_is_none():
    n = np.arange(1.0, 5.0)
    assert log_log_slope(n, np.array([1.0, 0.0, 0.25, 0.0])) == pytest.approx(np.log(0.25) / np.log(3))
    assert np.isnan(log_log_slope(n, np.array([1.0, 0.0, -1.0, 0.0])))
    assert np.isnan(slope(np.ones(3), n[:3]))
    assert slope(n, 2 - 3 * n) == pytest.approx(-3.0)


def test_percentiles_are_those_of_all_resamples():
    """Four numbers have 256 resamples; the interval is between quantiles of their means, stretched."""
    values = np.array([0.0, 1.0, 4.0, 20.0])
    means = np.array([np.mean(draw) for draw in itertools.product(values, repeat=4)])
    found = bootstrap([values], mean_of_first, resamples=20_000)
    assert (found.value, found.samples) == (6.25, 4)
    assert found.interval is not None
    stretch = (4 / 3) ** 0.5 * stats.t.ppf(0.975, 3) / stats.norm.ppf(0.975)
    for bound, share in zip(found.interval, (0.025, 0.975), strict=True):
        percentile = 6.25 + (bound - 6.25) / stretch
        assert np.quantile(means, share - 0.01) - 0.1 <= percentile <= np.quantile(means, share + 0.01) + 0.1


def test_the_interval_is_scipys_where_samples_are_many():
    random = np.random.default_rng(3)
    ours, theirs = random.normal(1, 1, 300), random.normal(0, 2, 200)
    found = bootstrap([ours, theirs], difference_of_means)
    wanted = stats.bootstrap(
        (ours, theirs), lambda a, b: a.mean() - b.mean(), method="percentile", vectorized=False, n_resamples=2000, rng=0
    ).confidence_interval
    error = np.hypot(ours.std() / 300**0.5, theirs.std() / 200**0.5)
    assert found.interval == pytest.approx((wanted.low, wanted.high), abs=0.15 * error)


@pytest.mark.parametrize("seeds", [3, 5])
def test_an_interval_covers_the_truth_as_often_as_it_says(seeds):
    """Without the stretch, the interval of three normal samples is nearly their range: it misses one mean in four."""
    draws = np.random.default_rng(1).normal(size=(200, seeds))
    found = [bootstrap([draw], mean_of_first, resamples=200).interval for draw in draws]
    missed = sum(interval is not None and not interval[0] <= 0 <= interval[1] for interval in found)
    assert missed <= 0.12 * len(draws)


def test_bounds_are_kept():
    found = bootstrap([np.array([0.7, 0.95, 0.99])], mean_of_first, bounds=(0.0, 1.0))
    assert found.interval is not None
    assert found.interval[1] == 1.0


@given(samples, st.floats(0.1, 10), numbers)
def test_intervals_scale_and_shift_with_the_samples(values, scale, shift):
    one = bootstrap([values], mean_of_first, resamples=50)
    two = bootstrap([scale * values + shift], mean_of_first, resamples=50)
    assert two.value == pytest.approx(scale * values.mean() + shift, abs=1e-6)
    if one.interval is None or two.interval is None:
        return
    low, high = one.interval
    assert two.interval == pytest.approx((scale * low + shift, scale * high + shift), abs=1e-6)


def test_groups_are_resampled_each_by_itself():
    """Two groups that are constant each have no spread between them, however far they are apart; pooled they have."""
    far = [np.zeros(4), np.full(4, 10.0)]
    assert bootstrap(far, difference_of_means) == Estimate(-10.0, (-10.0, -10.0), 4)
    pooled = bootstrap([np.concatenate(far)], mean_of_first)
    assert pooled.interval is not None


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ([], Estimate(None)),
        ([np.array([])], Estimate(None)),
        ([np.array([0.5])], Estimate(0.5, samples=1)),
        ([np.array([1.0, 1.0, 1.0])], Estimate(1.0, samples=3)),
        ([np.array([1.0, 2.0, 3.0]), np.array([1.0])], Estimate(2.0, samples=1)),
        ([np.array([1.0, np.nan, 1.0])], Estimate(None, samples=3)),
    ],
)
def test_what_cannot_be_known_is_not_claimed(groups, expected):
    assert bootstrap(groups, mean_of_first) == expected


def test_a_statistic_that_is_seldom_defined_has_no_interval():
    def correlation(groups):
        return spearman(groups[0][:, 0], groups[0][:, 1])

    pairs = np.array([[1.0, 1.0], [2.0, 3.0], [3.0, 2.0]])
    assert bootstrap([pairs[:2]], correlation).interval is None  # half of the resamples are all alike
    assert bootstrap([np.concatenate([pairs] * 3)], correlation).interval is not None


def test_an_estimate_in_words():
    assert str(Estimate(0.95312, (0.9, 0.97), 5)) == "0.953 (0.9 to 0.97)"
    assert str(Estimate(1.0, samples=3)) == "1 (interval not known)"
    assert str(Estimate(None)) == "not known"
