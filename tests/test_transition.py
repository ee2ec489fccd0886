"""The transition law: against matrix exponentials, against diffrax, and in its options."""

from collections.abc import Callable
from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.linalg import expm as flow_of
from jax.scipy.stats import multivariate_normal
from scipy.integrate import quad_vec
from scipy.linalg import expm

from ctmle.envs import Pendulum
from ctmle.models import SDE, DiagonalNetwork, EulerCovariance, Gap, Gaussian, LinearisedMoments, NetworkSDE
from ctmle.models.laws import LONGEST_SEGMENT, steps_for

pytestmark = pytest.mark.usefixtures("x64", "strict_dtypes")


class LinearSDE(SDE):
    """dy = A y dt + g dW."""

    matrix: jax.Array
    g: jax.Array

    def drift(self, y, u):
        return y @ self.matrix.T

    def diffusion(self, y, u):
        return jnp.broadcast_to(self.g, y.shape)


def network(**settings) -> NetworkSDE:
    """Return one member of an untrained ensemble."""
    ensemble = DiagonalNetwork(**settings).init(Pendulum().spec, jax.random.key(0), 1)
    return jax.tree.map(lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, ensemble.stacked)


def no_control(t, y):
    return jnp.zeros((*y.shape[:-1], 1))


MATRIX = np.array([[-0.3, 1.0], [-4.0, -0.5]])
G = np.array([0.3, 0.8])


@cache
def law_with(
    segments: int = 1, steps: int = 1, solver: Any = "rk4", kind: Any = LinearisedMoments
) -> Callable[..., Gaussian]:
    """Return a compiled law that takes so many segments to a gap, and so many steps to a segment."""
    law = kind(solver, LONGEST_SEGMENT / steps)

    @eqx.filter_jit
    def after(sde, control, t, y, seconds, **known):
        return law(sde, Gap(control, t, y, seconds, segments * LONGEST_SEGMENT, **known))

    return after


def law_of(segments: int, gap: float, kind: Any = LinearisedMoments, solver: Any = "rk4"):
    law = law_with(segments, solver=solver, kind=kind)
    y = jnp.asarray([[1.0, -0.5], [0.2, 0.3]])
    return law(
        LinearSDE(jnp.asarray(MATRIX), jnp.asarray(G)), no_control, jnp.zeros(2), y, jnp.full(2, gap)
    ), np.asarray(y)


def exact_noise(gap: float) -> np.ndarray:
    """Return the covariance of the noise over a gap, by quadrature."""
    return quad_vec(lambda s: expm(MATRIX * s) @ np.diag(G**2) @ expm(MATRIX * s).T, 0, gap)[0]


def test_segments_and_steps_resolve_the_longest_gap():
    assert steps_for(0.125, 0.0625) == (1, 2)
    assert steps_for(0.126, 0.125) == (2, 1)
    assert steps_for(1.0, 0.01) == (8, 13)


@pytest.mark.parametrize(("gap", "segments"), [(0.05, 1), (0.3, 1), (1.0, 4)])
def test_moments_of_a_linear_system_are_exact(gap, segments):
    law, y = law_of(segments, gap)
    flow = expm(MATRIX * gap)
    np.testing.assert_allclose(law.mean, y @ flow.T, atol=2e-3)
    np.testing.assert_allclose(law.covariance()[0], exact_noise(gap), rtol=2e-3)


@pytest.mark.parametrize(("gap", "segments"), [(0.05, 1), (0.3, 3), (1.0, 8)])
def test_an_uncertain_start_is_carried_by_the_flow(gap, segments):
    """The covariance after a gap is flow P0 flow' plus the noise, with the flow by scipy's matrix exponential."""
    y = jnp.asarray([[1.0, -0.5], [0.2, 0.3]])
    starts = jnp.asarray([[[0.4, 0.0], [0.3, 0.2]], [[0.0, 0.0], [0.0, 0.0]]])
    sde, flow = LinearSDE(jnp.asarray(MATRIX), jnp.asarray(G)), expm(MATRIX * gap)
    how = (sde, no_control, jnp.zeros(2), y, jnp.full(2, gap))
    law, sure = law_with(segments)(*how, start=starts), law_with(segments)(*how)
    spread = np.asarray(starts[0] @ starts[0].T)
    np.testing.assert_allclose(law.covariance()[0], flow @ spread @ flow.T + exact_noise(gap), rtol=2e-3, atol=1e-4)
    np.testing.assert_allclose(law.covariance()[1], sure.covariance()[1], rtol=1e-9)
    np.testing.assert_allclose(law.mean, sure.mean, rtol=1e-12)
    euler = law_with(segments, kind=EulerCovariance)(*how, start=starts)
    np.testing.assert_allclose(euler.covariance()[0], spread + np.diag(G**2) * gap, rtol=1e-9)


def test_euler_covariance_is_right_to_first_order_only():
    errors = []
    for gap in (0.02, 0.01):
        law, _ = law_of(1, gap, EulerCovariance)
        errors.append(np.abs(law.covariance()[0] - exact_noise(gap)).max())
        np.testing.assert_allclose(np.diag(law.covariance()[0]), G**2 * gap, rtol=1e-12)
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.1)


def test_fixed_steps_agree_with_adaptive_dormand_prince_on_a_network():
    sde = network(hidden=(32, 32))
    y = jax.random.normal(jax.random.key(1), (6, 5, 2))
    t, gap = jnp.zeros((6, 5)), jax.random.uniform(jax.random.key(2), (6, 5), maxval=0.25)

    def control(t, y):
        return jnp.sin(y[..., :1])

    adaptive = law_with(2, 1, "adaptive")(sde, control, t, y, gap)
    for solver in ("rk3", "rk4", "dopri5"):
        fixed = law_with(2, 1, solver)(sde, control, t, y, gap)
        np.testing.assert_allclose(fixed.mean, adaptive.mean, atol=2e-4, err_msg=solver)
        np.testing.assert_allclose(fixed.factor, adaptive.factor, atol=2e-4, err_msg=solver)


@pytest.mark.parametrize(("solver", "order"), [("rk3", 3), ("rk4", 4), ("dopri5", 5)])
def test_methods_have_their_order(solver, order):
    truth = expm(MATRIX)
    errors = []
    for segments in (4, 8):
        law, y = law_of(segments, 1.0, solver=solver)
        errors.append(np.abs(law.mean - y @ truth.T).max())
    assert errors[0] / errors[1] == pytest.approx(2**order, rel=0.25)


def test_the_gradient_of_the_mean_is_that_of_the_exact_one_to_second_order_in_the_step():
    y, weights, gap = jnp.asarray([[1.0, -0.5]]), jnp.asarray([0.7, -1.3]), 0.5

    def exact(matrix):
        return jnp.sum(weights * (flow_of(matrix * gap) @ y[0]))

    def by_law(matrix, steps):
        law = law_with(1, steps)
        mean = law(LinearSDE(matrix, jnp.asarray(G)), no_control, jnp.zeros(1), y, jnp.full(1, gap)).mean
        return jnp.sum(weights * mean[0])

    truth = jax.jit(jax.grad(exact))(jnp.asarray(MATRIX))
    gradient = jax.jit(jax.grad(by_law), static_argnums=1)
    errors = [np.abs(gradient(jnp.asarray(MATRIX), steps) - truth).max() for steps in (2, 4)]
    assert errors[1] < 0.02 * np.abs(truth).max()
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.25)


def test_gradients_of_gaps_in_many_segments_are_those_of_one():
    """Where a segment ends makes no difference to a linear system."""
    y, gap = jnp.asarray([[1.0, -0.5]]), 0.5

    def mean(matrix, segments, steps):
        law = law_with(segments, steps)
        return law(LinearSDE(matrix, jnp.asarray(G)), no_control, jnp.zeros(1), y, jnp.full(1, gap)).mean

    jacobian = jax.jit(jax.jacobian(mean), static_argnums=(1, 2))
    whole, parts = (jacobian(jnp.asarray(MATRIX), *law) for law in ((1, 8), (4, 2)))
    np.testing.assert_allclose(parts, whole, rtol=1e-4, atol=1e-6)


def test_the_gradient_of_a_gap_in_segments_is_that_of_its_likelihood():
    """How the spread changes with the drift is part of it: by the exact law of a linear system (Van Loan, 1978)."""
    y, seen, gap = jnp.asarray([[1.0, -0.5]]), jnp.asarray([[0.9, -2.0]]), 0.5

    def by_law(matrix):
        law = law_with(4, 2)(LinearSDE(matrix, jnp.asarray(G)), no_control, jnp.zeros(1), y, jnp.full(1, gap))
        return -law.log_prob(seen - law.mean)[0]

    def exact(matrix):
        zero = jnp.zeros_like(matrix)
        both = flow_of(gap * jnp.block([[-matrix, jnp.diag(jnp.asarray(G) ** 2)], [zero, matrix.T]]))
        flow = both[2:, 2:].T
        return -jnp.asarray(multivariate_normal.logpdf(seen[0], flow @ y[0], flow @ both[:2, 2:]))

    truth = jax.jit(jax.grad(exact))(jnp.asarray(MATRIX))
    found = jax.jit(jax.grad(by_law))(jnp.asarray(MATRIX))
    np.testing.assert_allclose(found, truth, rtol=0.02, atol=0.02 * np.abs(truth).max())


def test_a_gap_of_zero_is_finite_and_stays_put():
    law, y = law_of(1, 0.0)
    np.testing.assert_allclose(law.mean, y)
    assert np.all(np.isfinite(law.log_prob(jnp.zeros((2, 2)))))


def test_closed_loop_and_held_control_differ_as_they_should():
    """y' = u with u = -3 y: the closed loop decays exponentially, a held control linearly."""
    y, t, gap = jnp.ones((1, 1)), jnp.zeros(1), jnp.full(1, 0.2)
    closed = law_with()(Integrator(), lambda t, y: -3.0 * y, t, y, gap)
    held = law_with()(Integrator(), lambda t, y: jnp.full_like(y, -3.0), t, y, gap)
    np.testing.assert_allclose(closed.mean[0, 0], np.exp(-0.6), rtol=2e-3)
    np.testing.assert_allclose(held.mean[0, 0], 0.4, rtol=1e-6)
    np.testing.assert_allclose(closed.covariance()[0, 0, 0], (1 - np.exp(-1.2)) / 6, rtol=1e-3)
    np.testing.assert_allclose(held.covariance()[0, 0, 0], 0.2, rtol=1e-6)


class Integrator(SDE):
    def drift(self, y, u):
        return u

    def diffusion(self, y, u):
        return jnp.ones_like(y)


def test_steps_inside_a_segment_follow_feedback_that_one_step_cannot():
    """y' = -tanh(60 y): slides towards 0 at speed 1 and stops there, as no single step of 0.125 s does."""
    y, t, gap = jnp.full((1, 1), 0.02), jnp.zeros(1), jnp.full(1, 0.125)
    means = [
        law_with(1, steps, "rk3")(Integrator(), lambda t, y: -jnp.tanh(60.0 * y), t, y, gap).mean[0, 0]
        for steps in (1, 4)
    ]
    exact = np.arcsinh(np.sinh(60 * 0.02) * np.exp(-60 * 0.125)) / 60
    assert abs(means[1] - exact) < 0.001 < 0.01 < abs(means[0] - exact)


@pytest.mark.parametrize("gain", [10.0, 100.0, 200.0])
def test_steep_feedback_has_the_stationary_variance(gain):
    """y' = -gain y + dW: after many time constants the variance is 1 / (2 gain)."""
    law = law_with(1, 8)(Integrator(), lambda t, y: -gain * y, jnp.zeros(1), jnp.zeros((1, 1)), jnp.full(1, 0.125))
    np.testing.assert_allclose(law.covariance()[0, 0, 0], -np.expm1(-0.25 * gain) / (2 * gain), rtol=1e-2)


def test_steep_feedback_keeps_the_covariance_finite():
    law = law_with()(
        Integrator(),
        lambda t, y: -1e4 * y,
        jnp.zeros(1),
        jnp.full((1, 1), 1e-3),
        jnp.full(1, 0.5),
    )
    assert np.all(np.isfinite(law.factor))
    assert law.factor[0, 0, 0] > 0


class Repelling(SDE):
    """y' = size tanh(y / narrow): flees from 0, at a bounded speed, as a model far from the truth may."""

    size: jax.Array
    narrow: jax.Array

    def drift(self, y, u):
        return self.size * jnp.tanh(y / self.narrow)

    def diffusion(self, y, u):
        return jnp.full_like(y, 0.1)


@pytest.mark.parametrize(("segments", "steps"), [(1, 4), (8, 2)])
def test_what_runs_away_has_a_finite_law_and_a_gradient_of_ordinary_size(segments, steps):
    """In single precision, which cannot hold the spread e^100 that the linearisation asks for at 100 / s."""
    with jax.enable_x64(False):
        loss = jax.jit(jax.value_and_grad(_loss_of_running_away(law_with(segments, steps, "rk3"))))
        for rate in (20.0, 100.0, 1e5):
            value, gradient = loss(jnp.asarray([10.0, 9.0]), jnp.asarray(10.0 / rate))
            assert np.isfinite(value), rate
            assert np.all(np.abs(gradient) < 1e3), rate


def _loss_of_running_away(law):
    def loss(size, narrow):
        found = law(Repelling(size, narrow), lambda t, y: y, jnp.zeros(1), jnp.zeros((1, 2)), jnp.ones(1))
        return -found.log_prob(jnp.asarray([[0.7, -0.4]]) - found.mean)[0]

    return loss


class Rugged(SDE):
    """y' = A sin(B y): bounded, but with slopes of all signs and sizes, none of which a step of the path follows."""

    a: jax.Array
    b: jax.Array

    def drift(self, y, u):
        return jnp.sin(y @ self.b) @ self.a

    def diffusion(self, y, u):
        return 0.1 + jnp.sin(7 * y) ** 2


@pytest.mark.parametrize(("size", "steepnesses"), [(2, (10.0, 100.0)), (4, (100.0,))])
def test_a_rugged_model_has_finite_laws_and_gradients(size, steepnesses):
    with jax.enable_x64(False):
        keys = jax.random.split(jax.random.key(0), 4)
        a, b = (jax.random.normal(key, (size, size)) for key in keys[:2])
        y, seen = (3.0 * jax.random.normal(key, (2000, size)) for key in keys[2:])

        @jax.jit
        @jax.value_and_grad
        def loss(a, b):
            law = law_with(8, 2, "rk3")(Rugged(a, b), no_control, jnp.zeros(2000), y, jnp.ones(2000))
            return -jnp.mean(law.log_prob(seen - law.mean))

        for steepness in steepnesses:
            value, gradient = loss(10.0 * a, steepness * b)
            assert np.isfinite(value), steepness
            assert np.all(np.isfinite(gradient)), steepness


def test_diffusion_never_falls_below_its_floor():
    sde = network(hidden=(8,), diffusion="constant", floor=0.02)
    sde = eqx.tree_at(lambda d: d.log_scale, sde, jnp.full(2, -50.0))
    assert np.all(np.asarray(sde.diffusion(jnp.zeros((3, 2)), jnp.zeros((3, 1)))) >= 0.02)
