"""What the checker says of environments that cannot work, and that it lets those pass that can."""

import itertools
from dataclasses import replace

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import run_experiment

from ctmle.envs import Env, check_env, make
from ctmle.lab.run import Run
from ctmle.registry import ENVIRONMENTS

COUNTER = itertools.count()


class Tank(Env):
    """A level that leaks."""

    state_names: tuple[str, ...] = ("level",)
    angles: tuple[int, ...] = ()
    control_low: tuple[float, ...] = (0.0,)
    control_high: tuple[float, ...] = (1.0,)
    horizon: float = 5.0

    def drift(self, x, u):
        return u - 0.5 * x

    def diffusion(self, x, u):
        return 0.1 * jnp.ones(1)

    def reward(self, x, u):
        return jnp.exp(-((x[0] - 1.0) ** 2))

    def reset(self, key):
        return 0.1 * jax.random.uniform(key, (1,))


def tank(**methods) -> Env:
    """A tank with some of its methods or attributes replaced."""
    hints = {"__annotations__": {name: Tank.__annotations__[name] for name in methods if name in Tank.__annotations__}}
    return type("Tank", (Tank,), methods | hints)()


@pytest.mark.parametrize("name", ENVIRONMENTS.names)
def test_every_environment_here_passes(name):
    check_env(make(name))


def test_a_users_environment_passes():
    check_env(Tank())


class Friction:
    """State in Python, outside of the environment."""

    now = 0.5


def test_a_drift_that_reads_what_another_method_changes_is_found():
    drift = lambda self, x, u: u - Friction.now * x  # noqa: E731
    check_env(tank(drift=drift))
    with pytest.raises(ValueError, match=r"^Tank.drift: gives another value after other methods were called"):
        check_env(tank(drift=drift, reward=counting_reward))


def counting_reward(self, x, u):
    Friction.now += 0.1
    return jnp.exp(-((x[0] - 1.0) ** 2))


WRONG = {
    "drift: must give shape (1,), not ()": {"drift": lambda self, x, u: u[0] - x[0]},
    "drift: must give floating-point numbers, not int32": {"drift": lambda self, x, u: jnp.ones(1, jnp.int32)},
    "drift: must give a JAX array, not list": {"drift": lambda self, x, u: [0.0]},
    "drift: raises IndexError": {"drift": lambda self, x, u: jnp.stack([x[0], np.zeros(1)[3]])},
    "drift: is NaN or inf at state": {"drift": lambda self, x, u: jnp.log(-1.0 - x**2)},
    "drift: gives another value for the same arguments": {"drift": lambda self, x, u: x + next(COUNTER)},
    "drift: cannot be compiled": {"drift": lambda self, x, u: x if x[0] > 0 else -x},
    "drift: cannot be compiled (TracerArrayConversionError": {"drift": lambda self, x, u: jnp.asarray(np.sin(x))},
    "drift: its derivative is NaN or inf": {"drift": lambda self, x, u: jnp.sqrt(jnp.maximum(x - 1e3, 0.0))},
    "diffusion: must give shape (1,) or (1, 1), not (2,)": {"diffusion": lambda self, x, u: jnp.ones(2)},
    "diffusion: is negative at some states": {"diffusion": lambda self, x, u: -jnp.ones(1)},
    "reward: must give shape (), not (1,)": {"reward": lambda self, x, u: x},
    "reward: must give a JAX array, not NoneType": {"reward": lambda self, x, u: None},
    "reward: is NaN or inf": {"reward": lambda self, x, u: x[0] / 0.0},
    "goal: must give true or false, not float32": {"goal": lambda self, x: x[0]},
    "goal: must give shape (), not (1,)": {"goal": lambda self, x: x > 0},
    "reset: must give shape (1,), not (2,)": {"reset": lambda self, key: jnp.zeros(2)},
    "reset: gives another value for the same arguments": {"reset": lambda self, key: jnp.ones(1) * next(COUNTER)},
    "reset: is NaN or inf": {"reset": lambda self, key: jnp.full(1, jnp.nan)},
    "state_names: name every coordinate": {"state_names": ()},
    "angles: give indices of coordinates from 0 to 0": {"angles": (1,)},
    "control_low: must be finite and below control_high": {"control_low": (2.0,)},
    "control_low: control_low and control_high need one number": {"control_low": (0.0, 0.0)},
    "horizon: must be a positive number of seconds": {"horizon": -1.0},
}


@pytest.mark.parametrize("message", list(WRONG))
def test_a_problem_is_named_with_its_method(message):
    with pytest.raises(ValueError, match="Tank") as caught:
        check_env(tank(**WRONG[message]))
    assert str(caught.value).splitlines()[0].startswith(f"Tank.{message}")


def test_a_goal_and_a_control_that_is_held_pass_unless_it_is_held_too_long():
    with_goal = tank(goal=lambda self, x: x[0] > 0.9)
    check_env(with_goal)
    check_env(Tank(hold=0.5, sensor_noise=0.1))
    with pytest.raises(ValueError, match=r"Tank.hold: must be a positive number of seconds, at most the horizon 5, no"):
        check_env(Tank(hold=9.0))


def test_every_problem_is_listed():
    env = tank(drift=lambda self, x, u: x[0], reward=lambda self, x, u: x)
    with pytest.raises(ValueError, match=r"Tank\.drift.*\nTank\.reward"):
        check_env(env)


def test_what_is_no_env_is_told_what_to_do():
    with pytest.raises(ValueError, match=r"PendulumEnv is not a ctmle\.envs\.Env: subclass it"):
        check_env(gymnasium.make("Pendulum-v1").unwrapped)


def test_a_run_checks_the_environment_that_it_is_given():
    with pytest.raises(ValueError, match=r"Tank\.reward: must give shape"):
        Run(replace(run_experiment(), env=tank(reward=lambda self, x, u: x)))
    assert Run(replace(run_experiment(), env=Tank())).spec.observation.size == 1


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        (((0, 1),), "kinematics: give pairs of indices of coordinates from 0 to 0"),
        (((0, 0), (0, 0)), "kinematics: gives two derivatives of the same coordinate"),
        (((0, 0),), "kinematics: says that the derivative of 'level' is 'level', and drift says otherwise"),
    ],
)
def test_kinematics_that_are_not_so_are_refused(pairs, said):
    with pytest.raises(ValueError, match=said.replace("(", "\\(")):
        check_env(tank(kinematics=pairs))
