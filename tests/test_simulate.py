"""The simulator: orders of convergence against closed forms, exact landing on looks, determinism."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st

from ctmle.envs import Env, LinearQuadratic, Pendulum, sde_step
from ctmle.plants import simulate, simulate_many
from ctmle.schedules import Equidistant, Looks

pytestmark = pytest.mark.usefixtures("strict_dtypes")

PATHS, FINEST = 4000, 256


def strong_and_weak_errors(drift, diffusion, exact, x0: float, horizon: float) -> tuple[list[float], list[float]]:
    """Errors at the horizon for steps of 1/8, 1/16, 1/32 of it, on shared Brownian paths."""
    dw = np.sqrt(horizon / FINEST) * jax.random.normal(jax.random.key(0), (FINEST, PATHS), dtype=jnp.float64)
    truth = exact(dw)
    strong, weak = [], []
    for steps in (8, 16, 32):
        coarse = dw.reshape(steps, FINEST // steps, PATHS).sum(axis=1)
        dt = jnp.asarray(horizon / steps)
        x = jnp.full(PATHS, x0)
        for i in range(steps):
            x = sde_step(drift, diffusion, i * dt, x, dt, coarse[i])
        strong.append(float(jnp.mean(jnp.abs(x - truth))))
        weak.append(abs(float(jnp.mean(x - truth))))
    return strong, weak


def order(errors: list[float]) -> float:
    return float(np.polyfit(np.log([8, 16, 32]), -np.log(errors), 1)[0])


@pytest.mark.usefixtures("x64")
def test_ornstein_uhlenbeck_strong_order_is_one():
    rate, level, horizon = 2.0, 0.7, 1.0

    def exact(dw):
        x, dt = jnp.full(PATHS, 1.0), horizon / FINEST
        for step in dw:  # exact in the drift; the path inside a finest step is below the errors measured
            x = x * np.exp(-rate * dt) + level * np.exp(-rate * dt / 2) * step
        return x

    strong, _ = strong_and_weak_errors(lambda t, x: -rate * x, lambda t, x: level + 0 * x, exact, 1.0, horizon)
    assert 0.85 < order(strong) < 1.6


@pytest.mark.usefixtures("x64")
def test_geometric_brownian_motion_strong_order_half_and_weak_order_one():
    mu, level, horizon = 1.5, 0.6, 1.0

    def exact(dw):
        return jnp.exp((mu - level**2 / 2) * horizon + level * dw.sum(axis=0))

    strong, weak = strong_and_weak_errors(lambda t, x: mu * x, lambda t, x: level * x, exact, 1.0, horizon)
    assert 0.4 < order(strong) < 1.1
    assert order(weak) > 0.8


def test_ornstein_uhlenbeck_law_is_reached():
    env = LinearQuadratic(sigma=2.0, a=-1.0, horizon=3.0)
    zero = Constant(jnp.zeros(1))
    looks = Looks(jnp.asarray([0.0, 0.3, 1.0, 3.0]))
    paths = simulate_many(env, zero, looks, jax.random.split(jax.random.key(1), 4000))
    for i, t in enumerate([0.0, 0.3, 1.0, 3.0]):
        x = np.asarray(paths.states[:, i, 0])
        variance = 0.2**2 * (1 - np.exp(-2 * t)) / 2
        assert abs(x.mean() - np.exp(-t)) < 4 * np.sqrt(variance / 4000) + 1e-3
        assert abs(x.var() - variance) < 0.12 * variance + 1e-9


class Constant(eqx.Module):
    value: jax.Array

    def __call__(self, t, y):
        return jnp.broadcast_to(self.value, (*y.shape[:-1], 1))


class Clock(Env):
    """x = time, exactly: shows where the simulator lands."""

    state_names: tuple[str, ...] = ("t",)
    angles: tuple[int, ...] = ()
    control_low: tuple[float, ...] = (-1.0,)
    control_high: tuple[float, ...] = (1.0,)
    horizon: float = 10.0

    def drift(self, x, u):
        return jnp.ones_like(x)

    def diffusion(self, x, u):
        return jnp.zeros_like(x)

    def reward(self, x, u):
        return x[0]

    def reset(self, key):
        return jnp.zeros(1)


@given(st.lists(st.floats(1e-3, 2.0), min_size=6, max_size=6), st.sampled_from([0.01, 0.03]))
def test_lands_exactly_on_every_look(gaps, step):
    times = jnp.asarray(np.cumsum([0.0, *gaps]), jnp.float32)
    trajectory = simulate(Clock(), Constant(jnp.zeros(1)), times, jax.random.key(0), step=step)
    np.testing.assert_allclose(trajectory.states[:, 0], times, rtol=1e-5, atol=1e-6)


def test_substeps_are_never_longer_than_the_step():
    """A field that is wild at finer scales than the step would betray a longer substep: compare with a tiny step."""
    env, times = Pendulum(sigma=0.0), jnp.asarray([0.0, 1.0, 1.05, 2.5])
    policy = Constant(jnp.ones(1))
    coarse = simulate(env, policy, times, jax.random.key(0), step=0.01)
    fine = simulate(env, policy, times, jax.random.key(0), step=0.001)
    np.testing.assert_allclose(coarse.states, fine.states, atol=5e-3)


def test_same_key_same_trajectory_and_other_key_another():
    env, looks = Pendulum(), Equidistant(0.25).looks(jax.random.key(3), 5.0)
    a, b, c = (simulate(env, Constant(jnp.ones(1)), looks, jax.random.key(k)) for k in (0, 0, 1))
    np.testing.assert_array_equal(a.states, b.states)
    assert not np.allclose(a.states, c.states)


def test_batch_equals_single_trajectories():
    env, looks = Pendulum(), Equidistant(0.5).looks(jax.random.key(3), 5.0)
    keys = jax.random.split(jax.random.key(0), 3)
    batch = simulate_many(env, Constant(jnp.ones(1)), looks, keys)
    for i, key in enumerate(keys):
        single = simulate(env, Constant(jnp.ones(1)), looks, key)
        np.testing.assert_allclose(batch.states[i], single.states, rtol=1e-4, atol=1e-4)


def test_trig_observation_is_the_same_trajectory():
    env, times = Pendulum(), jnp.linspace(0.0, 2.0, 9)
    plain = simulate(env, Constant(jnp.ones(1)), times, jax.random.key(0))
    trig = simulate(env, Constant(jnp.ones(1)), times, jax.random.key(0), observation="trig")
    theta, w = plain.states.T
    np.testing.assert_allclose(trig.states, jnp.stack([jnp.cos(theta), jnp.sin(theta), w], axis=1), atol=1e-5)


def test_controls_are_clipped_to_their_bounds():
    trajectory = simulate(Pendulum(), Constant(jnp.full(1, 9.0)), jnp.asarray([0.0, 0.1]), jax.random.key(0))
    np.testing.assert_array_equal(trajectory.controls, 2.0)
