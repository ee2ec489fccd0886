"""Our environments as Gymnasium sees them, by Gymnasium's own checker."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from ctmle.envs import LinearQuadratic, Pendulum, make
from ctmle.plants.gymnasium_view import GymnasiumView
from ctmle.registry import ENVIRONMENTS


@pytest.mark.parametrize("name", ENVIRONMENTS.names)
def test_gymnasiums_checker_is_content(name):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*Box.*")  # unbounded observations; action ranges of physical units
        warnings.filterwarnings("ignore", message=".*spec.*")  # it is not made by gymnasium.make
        check_env(GymnasiumView(make(name)), skip_render_check=True)


def test_an_episode_ends_at_the_horizon_and_repeats_by_its_seed():
    def episode(seed: int) -> tuple[list[float], int]:
        env = GymnasiumView(Pendulum(horizon=1.0), gap=0.1)
        env.reset(seed=seed)
        rewards, truncated = [], False
        while not truncated:
            _, reward, terminated, truncated, _ = env.step(np.array([1.0], np.float32))
            assert not terminated
            rewards.append(reward)
        return rewards, len(rewards)

    assert episode(3) == episode(3)
    assert episode(3) != episode(4)
    assert episode(3)[1] == 10


def test_the_reward_of_a_step_is_the_integral_over_it():
    """Without noise or drift the state stays, so the integral is the reward times the gap."""
    env = LinearQuadratic(sigma=0.0)
    view = GymnasiumView(env, gap=0.5, observation="angles")
    start, _ = view.reset(seed=0)
    still = np.zeros(1, np.float32)
    after, reward, *_ = view.step(still)
    np.testing.assert_allclose(after, start, atol=1e-6)
    assert reward == pytest.approx(0.5 * float(env.reward(jnp.asarray(start), jnp.asarray(still))), rel=1e-5)


def test_a_gap_that_cannot_be_is_refused():
    with pytest.raises(ValueError, match="gap must be a positive number"):
        GymnasiumView(Pendulum(), gap=0.0)
