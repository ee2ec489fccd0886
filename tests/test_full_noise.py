"""Noise that is correlated between coordinates: in simulations, in transition laws, and learned."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy.linalg import expm

from ctmle.envs import CartPole, Env, LinearQuadratic, NoisyEnv, Observation, Pendulum, check_env, sde_step
from ctmle.envs.base import Spec
from ctmle.lab.evaluate import learned_diffusion, observed_diffusion
from ctmle.lab.experiment import start
from ctmle.models import SDE, Bridge, DiagonalNetwork, EulerCovariance, Gap, LinearisedMoments, NetworkSDE, World
from ctmle.models.model import TrueSDE, at_rates, trained_part
from ctmle.options import flat
from ctmle.plants.simulated import simulate_many
from ctmle.registry import ENVIRONMENTS
from ctmle.schedules.base import Looks

MATRIX = np.array([[-0.3, 1.0, 0.0], [-2.0, -0.5, 0.4], [0.2, -0.1, -0.6]])
G = np.array([[0.5, 0.0, 0.0], [-0.4, 0.6, 0.0], [0.5, -0.2, 0.6]])
POWER = G @ G.T


def closed_form(gap: float) -> tuple[np.ndarray, np.ndarray]:
    """Return flow and covariance of dx = A x dt + G dW over a gap (Van Loan, 1978)."""
    both = expm(gap * np.block([[-MATRIX, POWER], [np.zeros_like(MATRIX), MATRIX.T]]))
    flow = both[3:, 3:].T
    return flow, flow @ both[:3, 3:]


class Correlated(Env):
    """dx = A x dt + G dW, with a control that does nothing."""

    state_names: tuple[str, ...] = ("a", "b", "c")
    angles: tuple[int, ...] = ()
    control_low: tuple[float, ...] = (-1.0,)
    control_high: tuple[float, ...] = (1.0,)
    horizon: float = 1.0

    def drift(self, x, u):
        return jnp.asarray(MATRIX, x.dtype) @ x

    def diffusion(self, x, u):
        return jnp.asarray(G, x.dtype)

    def reward(self, x, u):
        return jnp.exp(-jnp.sum(x**2))

    def reset(self, key):
        return jnp.asarray([1.0, -0.5, 0.2])


class LinearSDE(SDE):
    """dy = A y dt + G dW, over batches."""

    g: jax.Array

    def drift(self, y, u):
        return y @ jnp.asarray(MATRIX.T, y.dtype)

    def diffusion(self, y, u):
        return jnp.broadcast_to(self.g, (*y.shape, y.shape[-1]))


class KnownDrift(SDE):
    """The true drift with learned noise."""

    noise: NetworkSDE

    def drift(self, y, u):
        return y @ jnp.asarray(MATRIX.T, y.dtype)

    def diffusion(self, y, u):
        return self.noise.diffusion(y, u)


def no_control(t, y):
    return jnp.zeros((*y.shape[:-1], 1), y.dtype)


def network(spec: Spec, **settings) -> NetworkSDE:
    """Return one member of an untrained ensemble with full noise."""
    ensemble = DiagonalNetwork(matrix="full", **settings).init(spec, jax.random.key(0), 1)
    return jax.tree.map(lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, ensemble.stacked)


# Simulation


def test_a_step_with_a_diagonal_matrix_is_that_with_its_diagonal():
    g, x, dw = (jax.random.normal(key, (4, 3)) for key in jax.random.split(jax.random.key(0), 3))
    t, dt = jnp.zeros(()), jnp.asarray(0.01)
    full, diagonal = (
        sde_step(lambda t, x: jnp.sin(x), lambda t, x, g=g: g, t, x, dt, dw) for g in (g[..., None] * jnp.eye(3), g)
    )
    np.testing.assert_array_equal(full, diagonal)


def test_simulated_covariance_is_the_closed_form():
    looks = Looks(jnp.asarray([0.0, 0.5, 1.0]))
    keys = jax.random.split(jax.random.key(1), 4000)
    ends = np.asarray(simulate_many(Correlated(), no_control, looks, keys).states[:, -1])
    flow, covariance = closed_form(1.0)
    scale = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(ends.mean(0), flow @ np.array([1.0, -0.5, 0.2]), atol=0.08 * scale.max())
    np.testing.assert_allclose(np.cov(ends.T) / np.outer(scale, scale), covariance / np.outer(scale, scale), atol=0.1)


# Environments


@pytest.mark.parametrize("name", ENVIRONMENTS.names)
def test_every_environment_takes_a_correlation(name):
    env = ENVIRONMENTS.load(name)(correlation=0.5)
    assert isinstance(env, NoisyEnv)
    size = len(env.state_names)
    g = np.asarray(env.diffusion(env.reset(jax.random.key(0)), jnp.zeros(len(env.control_low))))
    assert g.shape == (size, size)
    np.testing.assert_allclose(
        g @ g.T, (env.sigma * env.unit) ** 2 * (0.5 + 0.5 * np.eye(size)), rtol=1e-5, err_msg=name
    )
    np.testing.assert_array_equal(g, np.tril(g))


@pytest.mark.parametrize(("env", "lowest"), [(Pendulum, r"-1 \(-1/1\)"), (CartPole, r"-0\.3333 \(-1/3\)")])
def test_the_lowest_correlation_is_named(env, lowest):
    size = len(env().state_names)
    env(correlation=-0.99 / (size - 1))
    with pytest.raises(ValueError, match=r"correlation must be strictly between -1 and 1"):
        env(correlation=-1.0)
    if size > 2:
        with pytest.raises(ValueError, match=rf"{env.__name__}\.correlation must be above {lowest} with {size} coord"):
            env(correlation=-0.34)


def test_a_single_coordinate_takes_any_correlation():
    g = LinearQuadratic(correlation=-0.9).diffusion(jnp.ones(1), jnp.zeros(1))
    np.testing.assert_allclose(g, 0.1, rtol=1e-6)


def test_the_checker_takes_a_matrix_and_refuses_other_shapes():
    check_env(Correlated())
    wrong = type("Wrong", (Correlated,), {"diffusion": lambda self, x, u: jnp.ones((3, 2))})
    with pytest.raises(ValueError, match=r"Wrong\.diffusion: must give shape \(3,\) or \(3, 3\), not \(3, 2\)"):
        check_env(wrong())


def test_options_have_their_names():
    networks = start("pendulum").changed({"model": "ensemble"})
    experiment = networks.changed({"correlation": 0.6, "diffusion_matrix": "full"})
    assert flat(experiment)["correlation"] == 0.6
    assert experiment.env == Pendulum(correlation=0.6)
    assert (flat(experiment)["diffusion_matrix"], flat(networks)["diffusion_matrix"]) == ("full", "diagonal")


# Transition laws


@pytest.mark.usefixtures("x64", "strict_dtypes")
@pytest.mark.parametrize("gap", [0.125, 0.5, 1.0])
@pytest.mark.parametrize("law", [LinearisedMoments("rk4", 1 / 64), Bridge("rk4", 1 / 64)])
def test_laws_of_a_correlated_linear_system_are_exact(law, gap):
    y = jnp.asarray([[1.0, -0.5, 0.3], [0.2, 0.3, -1.0]])
    end = jnp.asarray([[0.8, -1.5, 0.0], [0.9, 0.1, 0.2]])
    where = Gap(no_control, jnp.zeros(2), y, jnp.full(2, gap), gap, end=end)
    found = eqx.filter_jit(law)(LinearSDE(jnp.asarray(G)), where)
    flow, covariance = closed_form(gap)
    np.testing.assert_allclose(found.mean, np.asarray(y) @ flow.T, rtol=1e-5)
    np.testing.assert_allclose(found.covariance()[0], covariance, rtol=1e-5)
    np.testing.assert_allclose(found.covariance()[1], covariance, rtol=1e-5)


@pytest.mark.usefixtures("x64", "strict_dtypes")
def test_euler_covariance_is_the_power_times_the_gap():
    where = Gap(no_control, jnp.zeros(1), jnp.ones((1, 3)), jnp.full(1, 0.1), 0.1)
    found = eqx.filter_jit(EulerCovariance())(LinearSDE(jnp.asarray(G)), where)
    np.testing.assert_allclose(found.covariance()[0], 0.1 * POWER, rtol=1e-12)


# Learned noise


@pytest.mark.parametrize("diffusion", ["constant", "state"])
def test_levels_are_the_deviations_and_correlations_start_at_0(diffusion):
    spec = Correlated().spec
    sde = network(spec, hidden=(8,), diffusion=diffusion)
    y, u = jax.random.normal(jax.random.key(1), (5, 3)), jnp.zeros((5, 1))
    levels = eqx.tree_at(lambda s: s.correlations, sde, None).diffusion(y, u)
    np.testing.assert_array_equal(sde.diffusion(y, u), levels[..., None] * jnp.eye(3))
    sde = eqx.tree_at(lambda s: s.correlations, sde, jnp.asarray([5.0, -0.3, 1.0]))
    g = np.asarray(sde.diffusion(y, u))
    np.testing.assert_allclose(np.sqrt(np.sum(g**2, axis=-1)), levels, rtol=1e-6)
    np.testing.assert_array_equal(g, np.tril(g))


def test_correlations_learn_at_the_rate_of_the_levels():
    model = DiagonalNetwork(hidden=(8,), diffusion_rate=7.0, matrix="full")
    ensemble = model.init(Correlated().spec, jax.random.key(0), 2)
    trained, _ = trained_part(model, ensemble)
    scaled = at_rates(model, ensemble, jax.tree.map(jnp.ones_like, trained))
    assert scaled.stacked.correlations.shape == (2, 3)
    np.testing.assert_array_equal(scaled.stacked.correlations, 7.0)
    np.testing.assert_array_equal(scaled.stacked.log_scale, 7.0)


def transitions(count: int, gap: float) -> tuple[jax.Array, jax.Array]:
    """Draw starts, and ends by the exact law."""
    random = np.random.default_rng(0)
    flow, covariance = closed_form(gap)
    starts = random.normal(size=(count, 3))
    ends = starts @ flow.T + random.multivariate_normal(np.zeros(3), covariance, count)
    return jnp.asarray(starts, jnp.float32), jnp.asarray(ends, jnp.float32)


def test_maximum_likelihood_recovers_every_entry_of_the_noise():
    gap = 0.125
    y, end = transitions(1500, gap)
    where = Gap(no_control, jnp.zeros(len(y)), y, jnp.full(len(y), gap), gap, end=end)
    sde = network(Correlated().spec, hidden=(4,), diffusion="constant")
    adam = optax.adam(0.05)

    def loss(learned):
        log_scale, correlations = learned
        noise = eqx.tree_at(lambda s: (s.log_scale, s.correlations), sde, (log_scale, correlations))
        law, residual = LinearisedMoments().seen(KnownDrift(noise), where)
        return -jnp.mean(law.log_prob(residual))

    def update(carry, _):
        learned, state = carry
        changes, state = adam.update(jax.grad(loss)(learned), state)
        return (optax.apply_updates(learned, changes), state), None

    begin: Any = (sde.log_scale, sde.correlations)
    (learned, _), _ = jax.jit(lambda c: jax.lax.scan(update, c, None, length=200))((begin, adam.init(begin)))
    found = eqx.tree_at(lambda s: (s.log_scale, s.correlations), sde, learned)
    g = np.asarray(found.diffusion(y[:1], no_control(None, y[:1]))[0])
    np.testing.assert_allclose(g @ g.T, POWER, rtol=0.2)


@pytest.mark.parametrize(("law", "gap"), [(LinearisedMoments(), 0.125), (Bridge(), 0.5)])
def test_gradients_are_finite_and_reach_the_correlations(law, gap):
    y, end = transitions(16, gap)
    where = Gap(no_control, jnp.zeros(len(y)), y, jnp.full(len(y), gap), gap, end=end)

    def loss(sde):
        found, residual = law.seen(sde, where)
        return -jnp.mean(found.log_prob(residual))

    gradient = eqx.filter_jit(eqx.filter_grad(loss))(network(Correlated().spec, hidden=(8,)))
    for leaf in jax.tree.leaves(eqx.filter(gradient, eqx.is_array)):
        assert np.all(np.isfinite(leaf))
    assert np.all(np.asarray(gradient.correlations) != 0)


# What is reported


def no_reward(t, y, u):
    return jnp.zeros(y.shape[:-1])


def test_reported_noise_levels_are_the_roots_of_the_diagonal():
    env = Correlated()
    y, u = jnp.ones((4, 3)), jnp.zeros((4, 1))
    deviations = np.sqrt(np.diag(POWER))
    ensemble = DiagonalNetwork(hidden=(4,), diffusion="constant", matrix="full").init(env.spec, jax.random.key(0), 2)
    ensemble = eqx.tree_at(lambda e: e.stacked.correlations, ensemble, jnp.ones((2, 3)))
    levels = 0.01 + np.tanh(0.3)
    np.testing.assert_allclose(observed_diffusion(env, env.spec, y, u), deviations, rtol=1e-6)
    np.testing.assert_allclose(learned_diffusion(World(TrueSDE(env), no_reward), y, u), deviations, rtol=1e-6)
    np.testing.assert_allclose(learned_diffusion(World(ensemble, no_reward), y, u), levels, rtol=1e-6)


def test_reported_noise_in_trigonometric_coordinates_is_that_of_its_slopes():
    env = Pendulum(correlation=0.6)
    spec = env.spec_for("trig")
    y, u = Observation(2, (0,), "trig").encode(jnp.asarray([[0.7, 1.0]])), jnp.zeros((1, 1))
    slopes = np.array([[-np.sin(0.7), 0.0], [np.cos(0.7), 0.0], [0.0, 1.0]])
    power = slopes @ (0.04 * np.array([[1.0, 0.6], [0.6, 1.0]])) @ slopes.T
    np.testing.assert_allclose(observed_diffusion(env, spec, y, u), np.sqrt(np.diag(power)), rtol=1e-5)
