"""When we look: counts, order, and one uniform look per gap."""

import jax
import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from ctmle.registry import SCHEDULES
from ctmle.schedules import Equidistant, ExponentialGaps, Grid, UniformGaps
from ctmle.settings import SettingError


@given(st.floats(0.03, 3.0), st.floats(3.0, 20.0), st.booleans(), st.integers(0, 2**31))
def test_equidistant_looks(gap, horizon, random_looks, seed):
    looks = Equidistant(gap, random_looks).looks(jax.random.key(seed), horizon)
    grid = np.asarray(looks.times)[:: 2 if random_looks else 1]
    gaps = np.diff(grid)
    assert grid[0] == 0
    assert grid[-1] == np.float32(horizon)
    assert np.all(np.diff(looks.times) >= 0)
    np.testing.assert_allclose(gaps[:-1], gap, atol=1e-5)
    assert 0 < gaps[-1] <= gap + 1e-5
    assert looks.count == (2 * len(gaps) + 1 if random_looks else len(gaps) + 1)


def test_dividing_gaps_are_all_equal():
    looks = Equidistant(0.125, False).looks(jax.random.key(0), 10.0)
    assert looks.count == 81
    np.testing.assert_allclose(np.diff(looks.times), 0.125, atol=1e-6)


def test_random_looks_are_uniform_in_their_gap():
    schedule = Grid((0.0, 1.0, 1.5, 4.0))
    draws = []
    for seed in range(400):
        times = np.asarray(schedule.looks(jax.random.key(seed), 4.0).times)
        draws += list((times[1::2] - times[:-1:2]) / np.diff(times[::2]))
    assert stats.kstest(draws, "uniform").pvalue > 0.01


@pytest.mark.parametrize("times", [(0.0,), (1.0, 2.0), (0.0, 2.0, 2.0), (0.0, 2.0, 1.0), (0.0, float("nan"))])
def test_bad_grids_are_refused(times):
    with pytest.raises(ValueError, match=r"grid|times"):
        Grid(times)


def test_gap_must_fit():
    with pytest.raises(SettingError, match="gap must be a positive"):
        Equidistant(0.0)
    with pytest.raises(ValueError, match="longer than the horizon"):
        Equidistant(11.0).looks(jax.random.key(0), 10.0)
    with pytest.raises(ValueError, match="after the horizon"):
        Grid((0.0, 11.0)).looks(jax.random.key(0), 10.0)


@pytest.mark.parametrize("kind", [UniformGaps, ExponentialGaps])
@given(st.sampled_from([(0.1, 3.0), (0.75, 5.0), (3.0, 3.0)]), st.booleans(), st.integers(0, 2**31))
def test_random_gaps_are_as_many_as_equal_ones_and_end_at_the_horizon(kind, times, random_looks, seed):
    gap, horizon = times
    looks = kind(gap, random_looks).looks(jax.random.key(seed), horizon)
    assert looks.count == Equidistant(gap, random_looks).looks(jax.random.key(0), horizon).count
    assert looks.times[0] == 0
    assert looks.times[-1] == np.float32(horizon)
    assert np.all(np.diff(looks.times) >= 0)


def test_random_gaps_have_their_distributions():
    uniform, exponential = [], []
    for seed in range(20):
        times = [
            np.asarray(kind(0.1, False).looks(jax.random.key(seed), 50.0).times)
            for kind in (UniformGaps, ExponentialGaps)
        ]
        uniform += list(np.diff(times[0]) / 0.2)
        exponential += list(np.diff(times[1]) / 0.1)
    assert stats.kstest(uniform, "uniform").pvalue > 0.01
    assert stats.kstest(exponential, "expon").pvalue > 0.01


def test_the_longest_gap_is_a_bound_or_an_expectation():
    assert UniformGaps(0.1).longest_gap(10.0) == 0.2
    schedule = ExponentialGaps(0.5, False)
    longest = [np.diff(schedule.looks(jax.random.key(seed), 10.0).times).max() for seed in range(400)]
    error = np.std(longest) / 20
    assert abs(np.mean(longest) - schedule.longest_gap(10.0)) < 4 * error


def test_schedules_have_names_and_bad_gaps_are_refused():
    kinds = {"equidistant": Equidistant, "uniform": UniformGaps, "exponential": ExponentialGaps}
    for name, kind in kinds.items():
        assert SCHEDULES.load(name) is kind
        with pytest.raises(SettingError, match="gap must be a positive"):
            kind(0.0)
        with pytest.raises(ValueError, match="longer than the horizon"):
            kind(11.0).looks(jax.random.key(0), 10.0)
        with pytest.raises(ValueError, match="longer than the horizon"):
            kind(11.0).fits(10.0)
