"""Statistics against closed forms, exhaustive enumeration, scipy, and what must hold for any numbers."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ctmle.report.statistics import (
    Estimate,
    bootstrap,
    interquartile_mean,
    log_log_slope,
    probability_of_improvement,
    ranks,
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
def test_ranks_and_spearman_are_scipys(points):
    x, y = np.array(points, float).T
    assert ranks(x) == pytest.approx(stats.rankdata(x))
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
    """Of four numbers there are 256 resamples: the interval is between quantiles of their means."""
    values = np.array([0.0, 1.0, 4.0, 20.0])
    means = np.array([np.mean(draw) for draw in itertools.product(values, repeat=4)])
    found = bootstrap([values], mean_of_first, resamples=20_000, level=0.8)
    assert found.value == 6.25
    assert found.samples == 4
    assert found.interval is not None
    for bound, share in zip(found.interval, (0.1, 0.9), strict=True):
        assert np.quantile(means, share - 0.02) <= bound <= np.quantile(means, share + 0.02)


def test_the_interval_of_three_samples_is_their_range():
    """All three resampled alike has probability 1/27, more than the 2.5% left out on each side: docs/reproduce.md."""
    found = bootstrap([np.array([0.3, 0.5, 0.9])], mean_of_first)
    assert found.interval == pytest.approx((0.3, 0.9))


def test_the_interval_is_scipys():
    random = np.random.default_rng(3)
    ours, theirs = random.normal(1, 1, 30), random.normal(0, 2, 20)
    found = bootstrap([ours, theirs], difference_of_means, resamples=5000)
    wanted = stats.bootstrap(
        (ours, theirs), lambda a, b: a.mean() - b.mean(), method="percentile", vectorized=False, n_resamples=5000, rng=0
    ).confidence_interval
    error = np.hypot(ours.std() / 30**0.5, theirs.std() / 20**0.5)
    assert found.interval == pytest.approx((wanted.low, wanted.high), abs=0.1 * error)


@given(samples, st.floats(0.1, 10), numbers)
def test_intervals_scale_and_shift_with_the_samples(values, scale, shift):
    one = bootstrap([values], mean_of_first, resamples=50)
    two = bootstrap([scale * values + shift], mean_of_first, resamples=50)
    assert two.value == pytest.approx(scale * values.mean() + shift, abs=1e-6)
    if one.interval is None or two.interval is None:
        return
    low, high = one.interval
    assert two.interval == pytest.approx((scale * low + shift, scale * high + shift), abs=1e-6)
    assert values.min() - 1e-9 <= low <= high <= values.max() + 1e-9


def test_groups_are_resampled_each_by_itself():
    """A group of constants moves an estimate and leaves the width of its interval alone."""
    ours = np.array([0.0, 1.0, 2.0, 5.0])
    alone = bootstrap([ours], mean_of_first)
    beside = bootstrap([ours, np.full(4, 10.0)], difference_of_means, seed=0)
    assert alone.interval is not None
    assert beside.interval is not None
    assert (alone.value, beside.value) == (2.0, -8.0)
    assert np.ptp(beside.interval) == pytest.approx(np.ptp(alone.interval), rel=0.1)


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ([], Estimate(None)),
        ([np.array([])], Estimate(None)),
        ([np.array([0.5])], Estimate(0.5, samples=1)),
        ([np.array([1.0, 1.0, 1.0])], Estimate(1.0, samples=3)),
        ([np.array([1.0, np.nan, 1.0])], Estimate(None, samples=3)),
    ],
)
def test_what_cannot_be_known_is_not_claimed(groups, expected):
    assert bootstrap(groups, mean_of_first) == expected


def test_a_statistic_that_is_seldom_defined_has_no_interval():
    def of_two_kinds(groups):
        return spearman(groups[0], groups[0])

    assert bootstrap([np.array([1.0, 2.0])], of_two_kinds).interval is None  # half of the resamples are all alike
    assert bootstrap([np.arange(9.0)], of_two_kinds).interval == pytest.approx((1.0, 1.0))


def test_an_estimate_in_words():
    assert str(Estimate(0.95312, (0.9, 0.97), 5)) == "0.953 (0.9 to 0.97)"
    assert str(Estimate(1.0, samples=3)) == "1 (interval not known)"
    assert str(Estimate(None)) == "not known"
