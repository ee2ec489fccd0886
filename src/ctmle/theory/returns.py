"""Simulated returns of a policy on any environment: samples for `theory.estimate_variance`."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from ctmle.envs.base import Env
from ctmle.plants.simulated import simulate_many
from ctmle.schedules.base import Looks


def simulated_returns(
    env: Env, policy: Any, key: PRNGKeyArray, *, trajectories: int = 1000, step: float = 0.02, largest: float = 1.0
) -> Float[np.ndarray, " trajectories"]:
    """Integrals of the reward over [0, T], divided by the largest possible integral T * `largest`, so at most 1."""
    if trajectories < 1 or not 0 < step <= env.horizon or not largest > 0:
        raise ValueError(
            f"trajectories must be at least 1, step between 0 and the horizon {env.horizon:g} s and largest positive,"
            f" not {trajectories}, {step} and {largest}"
        )
    times = jnp.linspace(0.0, env.horizon, math.ceil(env.horizon / step) + 1)
    seen = simulate_many(env, policy, Looks(times), jax.random.split(key, trajectories), step=step)
    rewards = np.asarray(env.spec.reward(seen.states, seen.controls), np.float64)
    integrals = np.trapezoid(rewards, np.asarray(times, np.float64), axis=1)
    return np.asarray(integrals / (env.horizon * largest))
