"""Tests of exact transition laws, values and total variances against scipy and simulation."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.integrate import fixed_quad, quad_vec
from scipy.linalg import expm

from ctmle.theory import estimate_variance
from ctmle.theory.exact import (
    Bump,
    MatrixLaw,
    Spiral,
    class_returns,
    hidden_arm,
    matrix_law,
    rotation,
    saturated,
    total_variances,
    values,
)
from ctmle.theory.exact.lattice import lattice

entries = st.floats(-2, 2)


matrix_transition = jax.jit(lambda a, b, g, gap: MatrixLaw(a, b, g, doublings=7).transition(gap))
transition = eqx.filter_jit(lambda law, gap: law.transition(gap))


def scipy_law(a, b, g, gap):
    """Flow exp(A gap), shift (integral of exp(A s) b) and covariance (integral of exp(A s) G G' exp(A s)')."""
    shift = quad_vec(lambda s: expm(a * s) @ b, 0, gap)[0]
    covariance = quad_vec(lambda s: expm(a * s) @ g @ g.T @ expm(a * s).T, 0, gap)[0]
    return expm(a * gap), shift, covariance


@pytest.mark.usefixtures("x64")
@settings(max_examples=8)
@given(st.lists(entries, min_size=10, max_size=10), st.floats(0.01, 3))
def test_matrix_law_is_the_matrix_exponential_and_the_covariance_integral(numbers, gap):
    a, b, g = np.reshape(numbers[:4], (2, 2)), np.array(numbers[4:6]), np.reshape(numbers[6:], (2, 2))
    law = matrix_transition(a, b, g, jnp.asarray(gap))
    flow, shift, covariance = scipy_law(a, b, g, gap)
    np.testing.assert_allclose(law.flow, flow, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(law.shift, shift, rtol=1e-7, atol=1e-8 * np.abs(flow).max())
    np.testing.assert_allclose(law.covariance, covariance, rtol=1e-7, atol=1e-8 * np.abs(flow).max() ** 2)


@pytest.mark.usefixtures("x64")
@given(st.floats(-1, 3), st.floats(-8, 8), st.floats(0.05, 2), st.floats(0.01, 3), st.tuples(entries, entries))
def test_spiral_is_the_matrix_law_of_a_rotation(decay, turn, noise, gap, push):
    spiral = Spiral(*(jnp.asarray(v, float) for v in (decay, turn, push, noise)))
    a = np.array([[-decay, -turn], [turn, -decay]])
    matrix = matrix_law(jnp.asarray(a), jnp.asarray(push, float), noise * jnp.eye(2), 3.0)
    for mine, other in zip(
        *(jax.tree.leaves(transition(law, jnp.asarray(gap))) for law in (spiral, matrix)), strict=True
    ):
        np.testing.assert_allclose(mine, other, rtol=1e-8, atol=1e-8)


@pytest.mark.usefixtures("x64")
def test_spiral_without_decay_is_brownian_motion_with_drift():
    law = Spiral(jnp.zeros(1), jnp.zeros(1), jnp.full((1, 2), 3.0), jnp.full(1, 0.5)).transition(jnp.full(1, 2.0))
    np.testing.assert_allclose(law.flow[0], np.eye(2))
    np.testing.assert_allclose(law.shift[0], [6, 6])
    np.testing.assert_allclose(law.covariance[0], 0.5 * np.eye(2))


@pytest.mark.usefixtures("x64")
def test_value_is_the_time_integral_of_a_gaussian_expectation():
    a, b, g = np.array([[-0.3, 1.0], [-2.0, -0.5]]), np.array([0.2, 1.0]), np.diag([0.1, 0.6])
    laws = matrix_law(jnp.asarray(a)[None], jnp.asarray(b)[None], jnp.asarray(g)[None], 2.0)
    reward = Bump(jnp.array([0.5, 0.0]), jnp.array([0.4, np.inf]), 2.0)

    def mean_reward(t):
        _, shift, covariance = scipy_law(a, b, g, t)
        spread = 0.4**2 + covariance[0, 0]
        return 0.4 / np.sqrt(spread) * np.exp(-((shift[0] - 0.5) ** 2) / (2 * spread)) / 2

    expected = fixed_quad(np.vectorize(mean_reward), 0, 2, n=12)[0]
    np.testing.assert_allclose(values(laws, reward, jnp.zeros(2))[0], expected, rtol=1e-7)


@pytest.mark.parametrize("make", [lambda: hidden_arm(0.4, 0.3), lambda: rotation(0.3, 2.0), lambda: saturated(0.4)])
def test_total_variance_and_value_agree_with_simulation(make):
    models = make()
    policy = models.policies - 1
    returns = class_returns(models, policy, samples=2000, step=0.04)
    assert np.all((returns >= 0) & (returns <= 1))
    seen, exact = estimate_variance(returns), float(models.variances[policy])
    wide = (seen.high / seen.low) ** 0.5  # the interval once more on each side: about four standard errors
    assert seen.low / wide < exact < seen.high * wide
    error = returns.std() / np.sqrt(len(returns))
    assert abs(returns.mean() - float(models.values[models.truth, policy])) < 4 * error + 1e-3


@pytest.mark.usefixtures("x64")
def test_total_variance_of_a_linear_reward_limit():
    """A very wide bump is linear away from its peak, so Var is that of the integral of an OU path."""
    noise, width, horizon = 0.01, 50.0, 2.0
    laws = Spiral(jnp.ones(1), jnp.zeros(1), jnp.zeros((1, 1)), jnp.full(1, noise))
    reward = Bump(jnp.array([width]), jnp.array([width]), horizon)
    slope = np.exp(-0.5) / width / horizon
    t = horizon
    integral_variance = noise**2 * (t - 2 * (1 - np.exp(-t)) + (1 - np.exp(-2 * t)) / 2)
    np.testing.assert_allclose(total_variances(laws, reward, jnp.zeros(1))[0], slope**2 * integral_variance, rtol=1e-3)


@pytest.mark.usefixtures("x64")
def test_lattice_is_the_exponential_of_its_generator_and_close_to_the_diffusion():
    points = np.linspace(-3, 3, 121)
    edges, h, noise = (points[1:] + points[:-1]) / 2, points[1] - points[0], 0.7
    chain = lattice(points, -edges, np.array(noise))
    up, down = (noise**2 / (2 * h**2) * np.exp(s * -edges * h / noise**2) for s in (1, -1))
    generator = np.diag(up, 1) + np.diag(down, -1)
    generator -= np.diag(generator.sum(axis=1))
    here, gap = 80, 0.6
    mine = np.asarray(chain.probabilities(jnp.asarray(here), jnp.asarray(gap)))
    np.testing.assert_allclose(mine, expm(generator * gap)[here], atol=1e-12)
    mean, variance = points[here] * np.exp(-gap), noise**2 * (1 - np.exp(-2 * gap)) / 2
    normal = np.exp(-((points - mean) ** 2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)
    np.testing.assert_allclose(mine / h, normal, atol=5e-3)
