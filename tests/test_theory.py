"""Tests of the calculators against brute force, quadrature, simulation and numerical minimisers."""

import itertools
import math
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.stats import kstest, norm

from ctmle import theory
from ctmle.theory import Problem, Smoothness, exact, ornstein_uhlenbeck as ou, quadratic

positive = st.floats(0.1, 5)
shares = st.floats(0.01, 0.99)


def test_calculators_and_their_plots_load_no_jax():
    program = "import sys, ctmle.theory.plots; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@given(st.floats(-3, 3), positive, st.floats(-3, 3), positive)
def test_hellinger_closed_form_is_the_integral(mean_p, sd_p, mean_q, sd_q):
    closed = theory.gaussian_hellinger2(
        np.array([mean_p]), np.array([[sd_p**2]]), np.array([mean_q]), np.array([[sd_q**2]])
    )
    by_nodes = theory.hellinger2(
        lambda x: norm.logpdf(x, mean_p, sd_p), lambda x: norm.logpdf(x, mean_q, sd_q), -45.0, 45.0, panels=900
    )
    assert float(closed) == pytest.approx(by_nodes, abs=1e-9)
    assert 0 <= float(closed) <= 1


def test_hellinger_of_diagonal_laws_multiplies_affinities():
    one = theory.gaussian_hellinger2(np.zeros(1), np.eye(1), np.ones(1), 2 * np.eye(1))
    two = theory.gaussian_hellinger2(np.zeros(2), np.eye(2), np.ones(2), 2 * np.eye(2))
    assert 1 - two == pytest.approx((1 - one) ** 2)
    with pytest.raises(ValueError, match="widen the interval"):
        theory.hellinger2(norm.logpdf, norm.logpdf, 0.0, 1.0)


def longest_by_permutations(psi, epsilon):
    """Length of the longest ordered sequence, literally by the definition."""
    best = 0
    for length in range(1, psi.shape[1] + 1):
        for sequence in itertools.permutations(range(psi.shape[1]), length):
            fine = all(
                any(row[list(sequence[:t])].sum() <= epsilon and row[sequence[t]] > epsilon for row in psi)
                for t in range(length)
            )
            best = length if fine else best
    return best


@settings(max_examples=25)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 10**6), st.floats(0.05, 0.6))
def test_eluder_dimension_is_the_brute_force_one(models, points, seed, epsilon):
    psi = np.random.default_rng(seed).choice([0.0, 0.1, 0.3, 0.7], size=(models, points))
    found = theory.eluder_dimension(psi, epsilon)
    assert found == longest_by_permutations(psi, epsilon)
    assert theory.greedy_eluder_dimension(psi, epsilon) <= found <= min(models, points)


def test_eluder_dimension_of_independent_models_and_of_a_class():
    assert theory.eluder_dimension(np.eye(6), 0.1) == 6
    assert theory.greedy_eluder_dimension(np.eye(300), 0.1, restarts=1) == 300
    with pytest.raises(ValueError, match="greedy_eluder_dimension"):
        theory.eluder_dimension(np.eye(300), 0.1)
    models = exact.hidden_arm(0.2, 0.1, arms=2)
    psi = exact.hellinger_table(models, np.zeros((1, 1)), np.array([1.0]))
    assert psi.shape == (9, 2)
    spread = 0.2 * math.sqrt((1 - math.exp(-2)) / 2)
    shift = 0.1 * (1 - math.exp(-1))
    twice = -math.expm1(-((2 * shift / spread) ** 2) / 8)  # arm 0: 2e against the truth's 0
    assert psi[:, 0].max() == pytest.approx(twice, rel=1e-9)
    assert theory.eluder_dimension(psi, 0.01) == 2


def test_beta():
    assert theory.theory_beta(1000, math.log(81), 0.1) == pytest.approx(5 * math.log(1000 * 81 / 0.1))
    assert theory.ville_beta(81, 0.1) == pytest.approx(math.log(2 * 81 / 0.1))
    with pytest.raises(ValueError, match="delta"):
        theory.ville_beta(81, 1.5)


def test_bracketing_numbers():
    assert theory.log_bracketing_finite(9, 9) == pytest.approx(math.log(81))
    count = theory.log_bracketing_quadratic(2, 2.0, 0.01)
    zeta = 0.01 / (3 * 4 * 2)
    assert count == pytest.approx(4 * math.log(2 * math.ceil(2 / zeta) + 1))
    assert theory.log_bracketing_quadratic_printed(2, 2.0, 0.01) == pytest.approx(4 * math.log(3 * 4 * 8 / 0.01))
    assert theory.eluder_bound_infinite(2, 2.0, 0.1) > theory.eluder_bound_finite(2, 2.0, 0.1)


def test_printed_variance_bound_fails_and_the_right_ones_hold():
    """Simulates the counter-example exactly: dx = (.01/T) x dt + .05 dW, b = clip(1/(2T) + L_b x, 0, 1/T)."""
    horizon, noise, steps = 10.0, 0.05, 400
    rate, slope = 0.01 / horizon, 0.02
    random, dt = np.random.default_rng(0), horizon / steps
    x, total = np.zeros(20000), np.zeros(20000)
    spread = noise * math.sqrt(math.expm1(2 * rate * dt) / (2 * rate))
    for _ in range(steps):
        before = np.clip(1 / (2 * horizon) + slope * x, 0, 1 / horizon)
        x = math.exp(rate * dt) * x + spread * random.standard_normal(20000)
        total += dt / 2 * (before + np.clip(1 / (2 * horizon) + slope * x, 0, 1 / horizon))
    seen = theory.estimate_variance(total)
    constants = Smoothness(reward=slope, drift=rate, policy=0.0, diffusion=noise, horizon=horizon)
    assert seen.low > 3 * theory.variance_bound_printed(constants)
    assert seen.high < theory.variance_bound_tight(constants) < theory.variance_bound(constants)


@given(positive, positive, st.floats(0, 3), positive, positive)
def test_variance_bounds_are_ordered_and_tight_is_the_integral(reward, drift, policy, diffusion, horizon):
    constants = Smoothness(reward, drift, policy, 1e-3 * diffusion, horizon)
    rate = 2 * drift * (1 + policy)
    assume(rate * horizon < 12)
    assert theory.variance_bound_tight(constants) <= theory.variance_bound(constants) * (1 + 1e-12)
    spread = quad(lambda t: (1e-3 * diffusion) ** 2 * math.expm1(rate * t) / rate, 0, horizon)[0]
    expected = min(1.0, horizon * (reward * (1 + policy)) ** 2 * spread)
    assert theory.variance_bound_tight(constants) == pytest.approx(expected, rel=1e-6)


def test_variance_interval_covers():
    random, inside = np.random.default_rng(1), 0
    for _ in range(300):
        seen = theory.estimate_variance(random.exponential(1.0, 300))
        inside += seen.low < 1 < seen.high
    assert inside / 300 > 0.85


@given(shares, st.floats(0, 1), st.floats(0.1, 50), st.floats(1e-3, 1), st.floats(1, 30), st.booleans(), positive)
def test_minimising_gap_is_the_numerical_minimiser(price, variance, horizon, epsilon, dimension, random_looks, bound):
    problem = Problem(variance, horizon, epsilon, dimension, price, random_looks, bound)
    found: Any = minimize_scalar(
        lambda log_gap: math.log(theory.total_complexity(problem, math.exp(log_gap))),
        bounds=(math.log(horizon * 1e-9), math.log(horizon)), method="bounded", options={"xatol": 1e-10},
    )  # fmt: skip
    best = theory.total_complexity(problem, theory.minimising_gap(problem))
    assert math.log(best) <= found.fun + 1e-9
    assert theory.minimising_gap(problem) == pytest.approx(math.exp(found.x), rel=1e-3)


@given(shares, st.floats(0, 1), st.floats(0.1, 50), st.floats(1e-2, 1), st.floats(1, 30))
def test_plan_beats_every_other_number_of_gaps(price, variance, horizon, epsilon, dimension):
    problem = Problem(variance, horizon, epsilon, dimension, price)
    chosen = theory.plan(problem)
    assert chosen.looks == chosen.episodes * chosen.looks_per_episode == chosen.episodes * 2 * chosen.gaps
    assert chosen.gap * chosen.gaps == pytest.approx(horizon)
    slack = 1 - price + price * chosen.looks_per_episode  # episodes are rounded up, which costs at most one episode
    others = {1, 2, 3, 5, 10, 100, max(1, chosen.gaps - 1), chosen.gaps + 1}
    assert all(chosen.cost <= theory.plan_at(problem, gaps).cost + slack for gaps in others)


def test_complexity_without_random_looks_is_the_printed_formula():
    variance, horizon, epsilon, d, price, gap = 0.05, 10.0, 0.05, 3.0, 0.2, 0.4
    problem = Problem(variance, horizon, epsilon, d, price, random_looks=False)
    base = d**2 / epsilon + d**2 * variance / epsilon**2
    printed = (
        (1 - price) * base
        + price * d**2 * horizon**2 / epsilon**2
        + (1 - price) * d**2 * horizon * gap / epsilon**2
        + base * price * horizon / gap
    )
    assert theory.total_complexity(problem, gap) == pytest.approx(printed)
    assert theory.minimising_gap(problem) == pytest.approx(math.sqrt(price * (epsilon + variance) / (1 - price)))


def test_plan_at_the_ends_of_lambda():
    free = Problem(0.05, 10.0, 0.05, 3.0, look_price=0.0)
    assert theory.minimising_gap(free) == 0
    assert theory.plan(free).gap == pytest.approx(theory.largest_harmless_gap(free)) == 0.01
    still = Problem(0.0, 10.0, 0.05, 3.0, look_price=0.0)
    assert theory.largest_harmless_gap_printed(still) == 0 < theory.largest_harmless_gap(still)
    dear = Problem(0.05, 10.0, 0.05, 3.0, look_price=1.0)
    assert theory.plan(dear).gaps == 1
    bad = {"variance": 2.0, "look_price": 1.1, "horizon": 0.0, "epsilon": -1.0, "dimension": math.nan}
    for name, value in bad.items():
        with pytest.raises(ValueError, match=name):
            replace(dear, **{name: value})


def test_regret_bound_does_not_depend_on_the_unit_of_time():
    sizes = {"episodes": 100, "looks": 400, "delta": 0.1, "beta": 50.0, "eluder": (8.0, 8.0)}
    seconds = theory.regret_bound(**sizes, gap_squares=400.0, variances=1.0, reward_bound=0.25)
    minutes = theory.regret_bound(**sizes, gap_squares=400.0 / 3600, variances=1.0, reward_bound=0.25 * 60)
    assert seconds == pytest.approx(minutes)


@pytest.mark.parametrize("t", [0.2, 0.7, 1.5, 2.6])
def test_quadratic_density_distribution_and_drift(t):
    def at(function, y, t):
        return float(function(np.array([y]), t)[0])

    def density(y, t=t):
        return at(quadratic.density, y, t)

    assert quad(density, -9, 9)[0] == pytest.approx(1)
    assert quad(density, -9, 0.4)[0] == pytest.approx(at(quadratic.distribution, 0.4, t))

    def integrand(z, h=1e-4):
        in_space = (density(z + h) - 2 * density(z) + density(z - h)) / (2 * h**2)
        return in_space - (density(z, t + h) - density(z, t - h)) / (2 * h)

    for y in (-1.3, 0.35, 1.1):
        printed = quad(integrand, -6, y, epsabs=1e-6)[0] / density(y)
        assert at(quadratic.drift, y, t) == pytest.approx(printed, rel=1e-3, abs=1e-3)
    assert np.isfinite(quadratic.drift(np.array([-40.0, 40.0]), t)).all(), "stable where the density underflows"


def test_quadratic_simulation_crosses_the_node_and_euler_maruyama_does_not():
    times, n = np.array([0.8, 1.5]), 6000
    split = quadratic.simulate(times, n, step=1e-3)
    plain = quadratic.simulate_plainly(times, n, step=1e-3)
    for i, t in enumerate(times):
        assert kstest(split[i], lambda y, t=t: quadratic.distribution(y, t)).pvalue > 1e-3
    assert kstest(plain[1], lambda y: quadratic.distribution(y, 1.5)).pvalue < 1e-6
    with pytest.raises(ValueError, match="between 0 and pi"):
        quadratic.simulate(np.array([3.5]), 10)


@given(st.floats(0.2, 2), st.floats(-1.5, 1.5), st.integers(1, 40), positive, st.floats(0.3, 2))
def test_ou_expansion_converges_within_its_bound(t, start, terms, rate, noise):
    scale = noise / math.sqrt(2 * rate)
    y, y0 = np.linspace(-5 * scale, 5 * scale, 101), start * scale
    error = np.abs(ou.expansion(y, y0, t, terms, rate, noise) - ou.transition_density(y, y0, t, rate, noise))
    assert error.max() <= ou.truncation_bound(y0, t, terms, rate, noise) * (1 + 1e-9) + 1e-12


def test_ou_hermite_functions_are_orthonormal_and_the_printed_sum_is_not_a_density():
    y = np.linspace(-12, 12, 4001)
    functions = ou.hermite_functions(y, 6, 0.7)
    np.testing.assert_allclose(functions @ functions.T * (y[1] - y[0]), np.eye(6), atol=1e-9)
    right, printed = (np.trapezoid(f(y, 1.0, 0.5, 60), y) for f in (ou.expansion, ou.expansion_printed))
    assert right == pytest.approx(1, abs=1e-6)
    assert abs(float(printed) - 1) > 0.03
