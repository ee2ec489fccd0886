"""Likelihood and score matching: against scipy, against each other, and their minimisers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from ctmle.models import Gaussian, NegativeLogLikelihood, SlicedScoreMatching
from ctmle.models.background import Background
from ctmle.models.gaussian import UNROLLED_UP_TO, cholesky
from ctmle.models.objectives import gaussian_score_matching, sliced_score_matching

pytestmark = pytest.mark.usefixtures("x64", "strict_dtypes")

SIZES = (1, 2, 4, UNROLLED_UP_TO + 1)
RANDOM = np.random.default_rng(0)


def random_law(size: int) -> tuple[Gaussian, np.ndarray]:
    root = RANDOM.normal(size=(size, size)) + 2 * np.eye(size)
    covariance = root @ root.T
    return Gaussian(jnp.asarray(RANDOM.normal(size=size)), cholesky(jnp.asarray(covariance))), covariance


@pytest.mark.parametrize("size", SIZES)
def test_log_density_is_scipys(size):
    law, covariance = random_law(size)
    residual = RANDOM.normal(size=size)
    expected = stats.multivariate_normal.logpdf(law.mean + residual, law.mean, covariance)  # pyright: ignore[reportArgumentType]
    np.testing.assert_allclose(law.log_prob(jnp.asarray(residual)), expected, rtol=1e-10)
    loss = NegativeLogLikelihood()(law, jnp.asarray(residual), jnp.asarray(0.1), jax.random.key(0))
    np.testing.assert_allclose(loss, -expected, rtol=1e-10)


@pytest.mark.parametrize("size", SIZES)
def test_score_is_the_gradient_of_the_log_density(size):
    law, covariance = random_law(size)
    residual = jnp.asarray(RANDOM.normal(size=size))
    np.testing.assert_allclose(law.score(residual), jax.jit(jax.grad(law.log_prob))(residual), rtol=1e-8)
    np.testing.assert_allclose(law.precision_trace(), np.trace(np.linalg.inv(covariance)), rtol=1e-8)
    np.testing.assert_allclose(law.covariance(), covariance, rtol=1e-10)


def test_samples_have_the_law():
    law, covariance = random_law(2)
    draws = jax.vmap(law.sample)(jax.random.split(jax.random.key(0), 20000))
    np.testing.assert_allclose(np.cov(draws.T), covariance, rtol=0.06, atol=0.1)


def test_projections_have_the_closed_form_as_their_mean():
    law, _ = random_law(3)
    residual = jnp.asarray(RANDOM.normal(size=3))
    signs = jax.random.rademacher(jax.random.key(1), (40000, 3), jnp.float64)
    losses = jax.vmap(lambda v: sliced_score_matching(law.score, residual, v))(signs)
    error = float(losses.std()) / 200
    assert abs(float(losses.mean()) - float(gaussian_score_matching(law, residual))) < 4 * error


def test_projections_are_exact_for_a_diagonal_law():
    """Then v' grad(v' s) is -trace(Sigma^-1) whatever the signs are."""
    law = Gaussian(jnp.zeros(3), jnp.diag(jnp.asarray([0.5, 1.0, 2.0])))
    residual = jnp.asarray([0.3, -1.0, 0.7])
    for seed in range(3):
        v = jax.random.rademacher(jax.random.key(seed), (3,), jnp.float64)
        loss = sliced_score_matching(law.score, residual, v)
        np.testing.assert_allclose(loss, gaussian_score_matching(law, residual), rtol=1e-12)


def test_any_score_function_will_do():
    """A logistic density, whose score -tanh(x/2) has the derivative -(1 - tanh^2)/2: no Gaussian anywhere."""
    x, v = jnp.asarray([0.4, -1.3]), jnp.asarray([1.0, -1.0])
    tanh = np.tanh(np.asarray(x) / 2)
    expected = 0.5 * np.sum(tanh**2) - np.sum((1 - tanh**2) / 2)
    np.testing.assert_allclose(sliced_score_matching(lambda x: -jnp.tanh(x / 2), x, v), expected, rtol=1e-10)


@pytest.mark.parametrize("objective", [NegativeLogLikelihood(), SlicedScoreMatching(0, False), SlicedScoreMatching()])
def test_the_minimiser_is_the_true_gaussian(objective):
    """Gradient descent on mean and log-deviation ends at the sample's own (which are the minimiser's closed form)."""
    draws = 0.7 + 0.4 * jax.random.normal(jax.random.key(0), (4000, 1), dtype=jnp.float64)
    gap = jnp.full(4000, 0.25)

    def loss(parameters):
        mean, log_deviation = parameters
        law = Gaussian(jnp.full((4000, 1), mean), jnp.full((4000, 1, 1), jnp.exp(log_deviation)))
        return jnp.mean(objective(law, draws - mean, gap, jax.random.key(2)))

    parameters = jnp.asarray([0.0, 0.0])
    step = jax.jit(lambda p: p - 0.05 * jax.grad(loss)(p) / (1e-3 + jnp.linalg.norm(jax.grad(loss)(p))))
    for i in range(400):
        parameters = parameters + (step(parameters) - parameters) * (1.0 if i < 200 else 0.05)
    np.testing.assert_allclose(parameters[0], draws.mean(), atol=5e-3)
    np.testing.assert_allclose(jnp.exp(parameters[1]), draws.std(), atol=5e-3)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("objective", [NegativeLogLikelihood(), SlicedScoreMatching(0, False), SlicedScoreMatching(0)])
def test_a_log_density_with_leverage_curves_no_more_than_the_loss_in_any_direction(objective, size):
    """So that a share of it below 1, of either sign, cannot turn the minimum of a sample's loss into a maximum."""
    law, _ = random_law(size)
    gap, key = jnp.asarray(0.3), jax.random.key(0)
    residual = jnp.asarray(RANDOM.normal(size=size))
    of_loss = jax.jit(jax.hessian(lambda r: objective(law, r, gap, key)))(residual)
    of_density = objective.leverage(law, gap) * jax.jit(jax.hessian(lambda r: -law.log_prob(r)))(residual)
    assert np.linalg.eigvalsh(of_loss - of_density).min() > -1e-9
    ratio = np.linalg.eigvals(np.linalg.solve(of_loss, of_density)).real.max()
    assert 0.2 <= ratio <= 1 + 1e-9  # and not much less: 1 by likelihood, at least 1 / size by score matching


@given(st.floats(1e-3, 1.0), st.floats(0.05, 2.0))
def test_weighted_score_matching_has_a_bounded_scale(gap, level):
    """Sigma = g^2 h: the loss scales as 1/h, its weighted form does not."""
    law = Gaussian(jnp.zeros(1), jnp.full((1, 1), level * gap**0.5))
    residual = jnp.full(1, level * gap**0.5)  # one standard deviation
    plain = SlicedScoreMatching(0, gap_weighted=False)(law, residual, jnp.asarray(gap), jax.random.key(0))
    weighted = SlicedScoreMatching(0)(law, residual, jnp.asarray(gap), jax.random.key(0))
    np.testing.assert_allclose(plain, -0.5 / (level**2 * gap), rtol=1e-6)
    np.testing.assert_allclose(weighted, -0.5 / level**2, rtol=1e-6)


@pytest.mark.parametrize("far", [0.3, 30.0])
def test_the_tail_is_a_mixture_that_bounds_the_loss_and_the_gradient(far):
    """A look that the law cannot explain costs what the background says, and moves nothing."""
    objective, wide = NegativeLogLikelihood(tail=0.02), stats.norm.logpdf(far, scale=5.0)
    behind = Background(jnp.asarray(wide), jnp.asarray(1.0))

    def loss(mean):
        law = Gaussian(mean[None], jnp.full((1, 1), 0.2))
        plain = objective(law, far - law.mean, jnp.asarray(0.5), jax.random.key(0))
        return objective.bounded(plain, behind)

    (value, share), slope = jax.jit(jax.value_and_grad(loss, has_aux=True))(jnp.asarray(0.0))
    law, background = 0.98 * stats.norm.pdf(far, scale=0.2), 0.02 * np.exp(wide)
    np.testing.assert_allclose(value, -np.log(law + background), rtol=1e-6)
    np.testing.assert_allclose(share, background / (law + background), rtol=1e-6)
    np.testing.assert_allclose(slope, -(1 - share) * far / 0.2**2, rtol=1e-4, atol=1e-12)


def test_the_tail_is_phased_in():
    """At first even the farthest look has its whole gradient; a tail of 0 is no tail at any time."""
    losses = jnp.asarray([1.0, 200.0])
    shares = [
        NegativeLogLikelihood(tail=0.02).bounded(losses, Background(jnp.asarray([-2.0, -5.0]), jnp.asarray(phase)))[1]
        for phase in (0.0, 1.0)
    ]
    np.testing.assert_allclose(shares[0], 0.0, atol=1e-12)
    assert shares[1][0] < 0.02 < 0.99 < shares[1][1]
    np.testing.assert_array_equal(
        NegativeLogLikelihood(tail=0.0).bounded(losses, Background(losses, losses[0]))[0], losses
    )
