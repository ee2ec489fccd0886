"""The law for long gaps: exact on linear systems, normalised on a pendulum, and what it takes."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.linalg import expm as flow_of
from jax.scipy.stats import multivariate_normal

from ctmle.data.drive import Recorded
from ctmle.envs import Observation
from ctmle.models import SDE, Bridge, Gap, Gaussian, LinearisedMoments

pytestmark = pytest.mark.usefixtures("x64", "strict_dtypes")

MATRIX = np.array([[-0.3, 1.0], [-4.0, -0.5]])
G = np.array([0.3, 0.8])
FINE = Bridge("rk4", 1 / 64)
Y = np.array([[1.0, -0.5], [0.2, 0.3]])
END = np.array([[0.4, -2.0], [0.5, 0.3]])


class LinearSDE(SDE):
    """dy = (A y + (0, u)) dt + g dW."""

    matrix: jax.Array

    def drift(self, y, u):
        return y @ self.matrix.T + jnp.concatenate([jnp.zeros_like(u), u], axis=-1)

    def diffusion(self, y, u):
        return jnp.broadcast_to(jnp.asarray(G), y.shape)


class PendulumSDE(SDE):
    """The pendulum, over batches."""

    def drift(self, y, u):
        return jnp.stack([y[..., 1], 15.0 * jnp.sin(y[..., 0]) + 3.0 * u[..., 0]], axis=-1)

    def diffusion(self, y, u):
        return jnp.full_like(y, 0.2)


def no_control(t, y):
    return jnp.zeros((*y.shape[:-1], 1), y.dtype)


def swing_up(t, y):
    """Saturated linear feedback, which holds the pendulum upright and does not swing it up."""
    return jnp.clip(-10.0 * jnp.sin(y[..., :1]) - 2.5 * y[..., 1:], -2.0, 2.0)


def gap_of(seconds: float, control: Any = no_control, y: Any = Y, end: Any = END, **known: Any) -> Gap:
    """Return gaps of one length, from points y to their ends."""
    begin, there = jnp.asarray(y), jnp.asarray(end)
    return Gap(control, jnp.zeros(len(begin)), begin, jnp.full(len(begin), seconds), seconds, end=there, **known)


@eqx.filter_jit
def seen(law: Bridge, sde: SDE, gap: Gap) -> tuple[Gaussian, jax.Array]:
    return law.seen(sde, gap)


def exact(matrix: jax.Array, seconds: float) -> tuple[jax.Array, jax.Array]:
    """Return flow and covariance of the linear system (Van Loan, 1978)."""
    both = flow_of(seconds * jnp.block([[-matrix, jnp.diag(jnp.asarray(G) ** 2)], [jnp.zeros((2, 2)), matrix.T]]))
    flow = both[2:, 2:].T
    return flow, flow @ both[:2, 2:]


@pytest.mark.parametrize(("law", "seconds"), [(Bridge(passes=1), 0.5), (Bridge(), 0.125)])
def test_one_pass_and_short_gaps_are_linearised_moments(law, seconds):
    gap = gap_of(seconds, swing_up)
    found, _ = seen(law, PendulumSDE(), gap)
    moments = eqx.filter_jit(LinearisedMoments())(PendulumSDE(), gap)
    np.testing.assert_array_equal(found.mean, moments.mean)
    np.testing.assert_array_equal(found.factor, moments.factor)


def test_an_uncertain_start_is_carried_by_the_flow_of_a_linear_system():
    start = jnp.asarray([[[0.4, 0.0], [0.3, 0.2]], [[0.0, 0.0], [0.0, 0.0]]])
    flow, covariance = exact(jnp.asarray(MATRIX), 0.5)
    found, residual = seen(FINE, LinearSDE(jnp.asarray(MATRIX)), gap_of(0.5, start=start))
    carried = flow @ start @ jnp.swapaxes(start, -1, -2) @ flow.T
    np.testing.assert_allclose(found.mean, Y @ flow.T, rtol=1e-5)
    np.testing.assert_allclose(found.covariance(), carried + covariance, rtol=1e-5)
    np.testing.assert_allclose(residual, END - Y @ flow.T, rtol=1e-4, atol=1e-6)


def test_the_gradient_is_that_of_the_exact_likelihood_on_a_linear_system():
    def by_law(matrix):
        found, residual = FINE.seen(LinearSDE(matrix), gap_of(0.5))
        return jnp.sum(found.log_prob(residual))

    def closed_form(matrix):
        flow, covariance = exact(matrix, 0.5)
        return jnp.sum(jnp.asarray(multivariate_normal.logpdf(END - Y @ flow.T, jnp.zeros(2), covariance)))

    truth = jax.jit(jax.grad(closed_form))(jnp.asarray(MATRIX))
    np.testing.assert_allclose(jax.jit(jax.grad(by_law))(jnp.asarray(MATRIX)), truth, rtol=0.02, atol=0.02)


def test_missing_cells_leave_the_law_of_the_others():
    end = jnp.asarray([[0.4, jnp.nan], [jnp.nan, jnp.nan]])
    flow, covariance = exact(jnp.asarray(MATRIX), 0.5)
    found, residual = seen(FINE, LinearSDE(jnp.asarray(MATRIX)), gap_of(0.5, end=end, missing=True))
    off = float(0.4 - (Y @ flow.T)[0, 0])
    alone = -0.5 * float(off**2 / covariance[0, 0] + np.log(2 * np.pi * covariance[0, 0]))
    np.testing.assert_allclose(found.log_prob(residual), np.asarray([alone, 0.0]), rtol=1e-4, atol=1e-6)


def test_angles_may_be_seen_a_turn_away():
    observation = Observation(2, (0,), "angles")
    y, end = jnp.asarray([[0.3, -1.0]]), jnp.asarray([[-0.2, 0.5]])
    turned = end + jnp.asarray([2 * np.pi, 0.0])
    laws = [seen(Bridge(), PendulumSDE(), gap_of(0.5, swing_up, y, e, observation=observation)) for e in (end, turned)]
    (law, residual), (same, other) = laws
    np.testing.assert_allclose(same.log_prob(other), law.log_prob(residual), rtol=1e-8)


def test_a_recorded_control_may_jump_where_a_segment_ends():
    """A double integrator, pushed to and fro: exact, because the control is constant in every segment."""
    drive = Recorded(jnp.asarray([0.0, 0.25]), jnp.asarray([[2.0], [-2.0]]))
    found, _ = seen(Bridge(), LinearSDE(jnp.asarray([[0.0, 1.0], [0.0, 0.0]])), gap_of(0.5, drive, Y * 0))
    np.testing.assert_allclose(found.mean, [[0.125, 0.0]] * 2, atol=1e-6)


class Runaway(SDE):
    """y' = 150 tanh(steepness y / 150): unstable beyond what single precision can hold; constant if it is 0."""

    steepness: jax.Array
    push: jax.Array

    def drift(self, y, u):
        return 150.0 * jnp.tanh(self.steepness * y / 150.0) + self.push

    def diffusion(self, y, u):
        return jnp.full_like(y, 0.2)


def test_what_runs_away_and_what_never_moves_have_finite_gradients():
    with jax.enable_x64(False):
        y = jnp.zeros((1, 2), jnp.float32)

        @jax.jit
        @jax.value_and_grad
        def loss(numbers):
            gap = gap_of(0.5, y=y, end=y + 0.3)
            law, residual = Bridge(passes=2).seen(Runaway(numbers[0], numbers[1]), gap)
            return -law.log_prob(residual)[0]

        for steepness in (0.0, 20.0, 400.0, 3000.0, 1e5):
            value, gradient = loss(jnp.asarray([steepness, 0.1], jnp.float32))
            assert np.isfinite(value), steepness
            assert np.all(np.isfinite(gradient)), steepness


@pytest.mark.parametrize("start", [(0.1, 0.0), (0.3, -1.0), (np.pi, 0.0), (2.0, -3.0)])
def test_the_density_of_a_pendulum_half_a_second_later_integrates_to_1(start):
    """Each end has a linearisation of its own, so nothing but this test says that the densities add up."""
    y = jnp.asarray(start)[None]
    centre = eqx.filter_jit(LinearisedMoments())(PendulumSDE(), gap_of(0.5, swing_up, y, y))
    axis = jnp.linspace(-7.0, 7.0, 57)
    white = jnp.stack(jnp.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    ends = centre.mean + white @ centre.factor[0].T
    law, residual = seen(Bridge(), PendulumSDE(), gap_of(0.5, swing_up, jnp.broadcast_to(y, ends.shape), ends))
    area = (axis[1] - axis[0]) ** 2 * jnp.linalg.det(centre.factor[0])
    assert float(jnp.sum(jnp.exp(law.log_prob(residual))) * area) == pytest.approx(1.0, abs=0.02)
