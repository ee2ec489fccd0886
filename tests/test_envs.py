"""Environments against Gymnasium's own equations, and their doors."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.envs.classic_control.acrobot import AcrobotEnv
from hypothesis import given, strategies as st

from ctmle.envs import Acrobot, CartPole, CartPolePilco, CartPoleSwingUp, LinearQuadratic, Pendulum, make
from ctmle.envs.observation import Observation, wrap_angle
from ctmle.registry import ENVIRONMENTS

RANDOM = np.random.default_rng(0)


def test_pendulum_drift_is_gymnasiums():
    env = gymnasium.make("Pendulum-v1").unwrapped
    for _ in range(50):
        theta, w, u = RANDOM.uniform([-3, -5, -2], [3, 5, 2])
        env.state = np.array([theta, w])  # pyright: ignore[reportAttributeAccessIssue]
        env.step(np.array([u]))
        # Gymnasium takes a semi-implicit Euler step: w' = w + a dt, theta' = theta + w' dt.
        new_theta, new_w = env.state  # pyright: ignore[reportAttributeAccessIssue]
        acceleration = (new_w - w) / env.dt  # pyright: ignore[reportAttributeAccessIssue]
        drift = Pendulum().drift(jnp.asarray([theta, w]), jnp.asarray([u]))
        np.testing.assert_allclose(drift[1], acceleration, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose((new_theta - theta) / 0.05, new_w, rtol=1e-4, atol=1e-6)


def test_cartpole_drift_is_gymnasiums():
    env = gymnasium.make("CartPole-v1").unwrapped
    tau = env.tau  # pyright: ignore[reportAttributeAccessIssue]
    for _ in range(50):
        state = RANDOM.uniform([-2, -2, -0.2, -2], [2, 2, 0.2, 2])
        action = int(RANDOM.integers(2))
        env.reset()
        env.state = state  # pyright: ignore[reportAttributeAccessIssue]
        env.step(action)
        slope = (np.asarray(env.state) - state) / tau  # pyright: ignore[reportAttributeAccessIssue]
        control = jnp.asarray([1.0 if action else -1.0])
        for model in (CartPole(), CartPole(bang_bang=True)):
            drift = model.drift(jnp.asarray(state, jnp.float32), control)
            np.testing.assert_allclose(drift, slope, rtol=1e-3, atol=1e-3)


def test_bang_bang_pushes_fully_in_the_direction_of_the_control():
    x = jnp.asarray([0.1, 0.2, 0.1, -0.3])
    weak, full = jnp.asarray([-0.01]), jnp.asarray([-1.0])
    np.testing.assert_array_equal(CartPole(bang_bang=True).drift(x, weak), CartPole().drift(x, full))


def test_acrobot_drift_is_gymnasiums():
    env = AcrobotEnv()
    for _ in range(50):
        state = RANDOM.uniform([-3, -3, -4, -4], [3, 3, 4, 4])
        torque = RANDOM.uniform(-5, 5)
        slope = np.asarray(env._dsdt(np.append(state, torque)))[:4]
        x = jnp.asarray(state, jnp.float32)
        alone = Acrobot(underactuated=True).drift(x, jnp.asarray([torque], jnp.float32))
        both = Acrobot().drift(x, jnp.asarray([torque, 0.0], jnp.float32))
        np.testing.assert_allclose(alone, slope, rtol=2e-4, atol=2e-4)
        np.testing.assert_allclose(both, slope, rtol=2e-4, atol=2e-4)


def rod_energies(q, velocity):
    """Kinetic and potential energy of a cart of 0.5 kg with a uniform rod of 0.5 kg and 0.5 m: summed along the rod."""
    places = (jnp.arange(1000) + 0.5) / 1000 * 0.5

    def place(q):
        return jnp.stack([q[0] + places * jnp.sin(q[1]), places * jnp.cos(q[1])])

    moved = jax.jvp(place, (q,), (velocity,))[1]
    kinetic = 0.5 * 0.5 * velocity[0] ** 2 + 0.5 * 0.5 * jnp.mean(jnp.sum(moved**2, axis=0))
    return kinetic, 0.5 * 9.81 * jnp.mean(place(q)[1])


@pytest.mark.usefixtures("x64")
def test_pilcos_cart_pole_obeys_the_equations_of_lagrange():
    """d/dt dL/dq' - dL/dq is the force on the cart, less friction; and energy changes by that force's power."""
    env = CartPolePilco()

    def lagrangian(q, velocity):
        kinetic, potential = rod_energies(q, velocity)
        return kinetic - potential

    def energy(x):
        return sum(rod_energies(x[jnp.array([0, 2])], x[jnp.array([1, 3])]))

    def checked(x, u):
        f, q, velocity = env.drift(x, u), x[jnp.array([0, 2])], x[jnp.array([1, 3])]
        momentum = jax.grad(lagrangian, argnums=1)
        along = jax.jvp(momentum, (q, velocity), (velocity, f[jnp.array([1, 3])]))[1]
        return along - jax.grad(lagrangian)(q, velocity), jax.grad(energy)(x) @ f

    states, forces = RANDOM.uniform([-2, -3, -4, -9], [2, 3, 4, 9], (50, 4)), RANDOM.uniform(-10, 10, (50, 1))
    applied, power = jax.jit(jax.vmap(checked))(jnp.asarray(states), jnp.asarray(forces))
    push = forces[:, 0] - 0.1 * states[:, 1]
    np.testing.assert_allclose(applied, np.stack([push, 0 * push], axis=1), atol=1e-4)
    np.testing.assert_allclose(power, push * states[:, 1], atol=1e-3)


def test_pilcos_start_and_goal():
    env = CartPolePilco()
    starts = np.asarray(jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 2000)))
    np.testing.assert_allclose(starts.mean(axis=0), [0, 0, np.pi, 0], atol=1e-3)
    np.testing.assert_allclose(starts.var(axis=0), 1e-4, rtol=0.15)
    ten = np.radians(10)
    inside = [[0.099, 5, 0.99 * ten, 9], [-0.099, 0, 2 * np.pi - 0.99 * ten, 0]]
    outside = [[0.101, 0, 0, 0], [0, 0, 1.01 * ten, 0], [0, 0, np.pi, 0]]
    assert np.array_equal(jax.vmap(env.goal)(jnp.asarray([*inside, *outside])), [True, True, False, False, False])
    assert env.spec.reached(jnp.asarray([inside])).shape == (1, 2)


def test_torque_on_joint_one_solves_the_joint_one_equation():
    """Both joints' equations of motion, written out independently, hold with the torques as their right-hand sides."""
    for _ in range(20):
        th1, th2, w1, w2 = RANDOM.uniform([-3, -3, -4, -4], [3, 3, 4, 4])
        u2, u1 = RANDOM.uniform(-5, 5, 2)
        drift = np.asarray(Acrobot().drift(jnp.asarray([th1, th2, w1, w2], jnp.float32), jnp.asarray([u2, u1])))
        a1, a2 = drift[2:]
        d1 = 0.25 + (1 + 0.25 + np.cos(th2)) + 2
        d2 = 0.25 + 0.5 * np.cos(th2) + 1
        phi2 = 4.9 * np.sin(th1 + th2)
        phi1 = -0.5 * w2**2 * np.sin(th2) - w1 * w2 * np.sin(th2) + 14.7 * np.sin(th1) + phi2
        np.testing.assert_allclose(d1 * a1 + d2 * a2 + phi1, u1, atol=1e-3)
        np.testing.assert_allclose(d2 * a1 + 1.25 * a2 + 0.5 * w1**2 * np.sin(th2) + phi2, u2, atol=1e-3)


@pytest.mark.parametrize(
    ("env", "goal"),
    [
        (Pendulum(), [0.0, 0.0]),
        (CartPole(), [0.0, 0.0, 0.0, 0.0]),
        (CartPoleSwingUp(), [0.0, 0.0, 0.0, 0.0]),
        (CartPolePilco(), [0.0, 0.0, 0.0, 0.0]),
        (Acrobot(), [np.pi, 0.0, 0.0, 0.0]),
    ],
)
def test_reward_is_one_at_the_goal_and_rest_there_needs_no_control(env, goal):
    x, u = jnp.asarray(goal, jnp.float32), jnp.zeros(len(env.control_low))
    np.testing.assert_allclose(env.reward(x, u), 1.0, atol=1e-6)
    np.testing.assert_allclose(env.drift(x, u), 0.0, atol=1e-5)


@pytest.mark.parametrize("name", ENVIRONMENTS.names)
def test_every_environment_is_pure_and_batches(name):
    env = make(name)
    keys = jax.random.split(jax.random.key(0), 5)
    x = jax.vmap(env.reset)(keys)
    u = jnp.zeros((5, len(env.control_low)))
    assert x.shape == (5, len(env.state_names))
    for method in (env.drift, env.diffusion):
        np.testing.assert_allclose(jax.jit(jax.vmap(method))(x, u), jnp.stack([method(a, b) for a, b in zip(x, u, strict=True)]), atol=1e-5)  # fmt: skip  # noqa: E501
    assert jax.vmap(env.reward)(x, u).shape == (5,)


@pytest.mark.parametrize("env", [CartPole, CartPoleSwingUp, Acrobot])
def test_starts_are_near_the_papers_or_exactly_there(env):
    keys = jax.random.split(jax.random.key(0), 100)
    fixed, near = (jax.vmap(made.reset)(keys) for made in (env(start_width=0.0), env()))
    assert np.all(np.asarray(fixed) == np.asarray(fixed[0]))
    width = np.abs(np.asarray(near - fixed)).max(axis=0)
    assert np.all((0.9 * env().start_width < width) & (width <= env().start_width + 1e-6))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sigma": -1.0}, "sigma must be a number of at least 0"),
        ({"sigma": float("nan")}, "sigma"),
        ({"horizon": 0.0}, "horizon must be a positive number"),
        ({"unit": 0.0}, "unit must be a positive number"),
        ({"hold": 0.0}, "hold must be a positive number"),
        ({"sensor_noise": -0.1}, "sensor_noise must be a number of at least 0"),
        ({"correlation": 1.0}, "correlation must be strictly between -1 and 1"),
        ({"sigm": 1.0}, "did you mean 'sigma'"),
    ],
)
def test_bad_settings_are_refused_with_the_reason(settings, message):
    with pytest.raises(ValueError, match=message):
        make("pendulum", **settings)


def test_unknown_name_suggests_a_near_match():
    with pytest.raises(ValueError, match="did you mean 'pendulum'"):
        make("pendulm")


def test_linear_quadratic_gain_satisfies_the_riccati_equation():
    env = LinearQuadratic(a=0.7, control_cost=0.3)
    value = env.control_cost * env.best_gain  # P with k = P / c, and 0 = 2 a P + 1 - P^2 / c
    assert 2 * env.a * value + 1 - value**2 / env.control_cost == pytest.approx(0, abs=1e-9)


angle = st.floats(-50, 50, allow_nan=False)


@given(st.lists(angle, min_size=4, max_size=4), st.sampled_from([(0,), (2,), (0, 1), ()]))
def test_trig_and_angle_observations_agree(values, angles):
    x = jnp.asarray(values, jnp.float32)
    plain, trig = Observation(4, angles, "angles"), Observation(4, angles, "trig")
    np.testing.assert_allclose(trig.encode(x), plain.features(x), atol=1e-6)
    back = trig.decode(trig.encode(x))
    np.testing.assert_allclose(trig.encode(back), trig.encode(x), atol=1e-5)
    for i in range(4):
        if i not in angles:
            assert back[i] == x[i]


@given(angle, angle)
def test_residuals_of_angles_go_the_short_way_round(a, b):
    observation = Observation(2, (0,))
    residual = observation.residual(jnp.asarray([a, a], jnp.float32), jnp.asarray([b, b], jnp.float32))
    assert abs(residual[0]) <= np.pi + 1e-4
    np.testing.assert_allclose(np.sin(residual[0]), np.sin(a - b), atol=1e-4)
    np.testing.assert_allclose(residual[1], a - b, rtol=1e-5, atol=1e-5)


def test_wrap_angle():
    np.testing.assert_allclose(wrap_angle(jnp.asarray([0.0, 2 * np.pi, 3.5, -3.5])), [0, 0, 3.5 - 2 * np.pi, 2 * np.pi - 3.5], atol=1e-5)  # fmt: skip  # noqa: E501
