"""Any controlled SDE as a Gymnasium environment, for agents from elsewhere."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ctmle.envs.base import Env
from ctmle.envs.observation import ObservationKind
from ctmle.plants.ticks import MEASURED, integrate

try:
    import gymnasium
except ImportError as error:
    raise ImportError("the Gymnasium view needs Gymnasium: pip install 'ctmle[gymnasium]'") from error


class GymnasiumView(gymnasium.Env[np.ndarray, np.ndarray]):
    """Each step holds a control for `gap` seconds; its reward is the integral of the reward over them.

    The episode is truncated at the horizon and never terminates. `reset(seed=...)` makes everything repeatable.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - as Gymnasium has it

    def __init__(self, env: Env, gap: float = 0.05, *, step: float = 0.01, observation: ObservationKind = "trig"):
        if not 0 < gap <= env.horizon:
            raise ValueError(
                f"gap must be a positive number of seconds, at most the horizon {env.horizon:g} s, not {gap}"
            )
        self.env, self.gap = env, gap
        self.spec_of_env = env.spec_for(observation)
        size = self.spec_of_env.observation.size
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float32)
        low, high = self.spec_of_env.control_low, self.spec_of_env.control_high
        self.action_space = gymnasium.spaces.Box(np.asarray(low, np.float32), np.asarray(high, np.float32))
        substeps = max(1, round(gap / step))

        def move(x: jax.Array, u: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
            x, gain, _ = integrate(env, x, self.spec_of_env.clip(u), jnp.asarray(gap), 0.0, substeps, key)
            return x, gain

        self._move = jax.jit(move)
        self._reset = jax.jit(env.reset)
        self._key, self._state, self._steps = jax.random.key(0), None, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        if seed is not None or self._state is None:
            self._key = jax.random.key(int(self.np_random.integers(2**31)))
        self._key, start_key = jax.random.split(self._key)
        self._state, self._steps = self._reset(start_key), 0
        return self._seen(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        if self._state is None:
            raise ValueError("call reset before step")
        self._key, noise_key = jax.random.split(self._key)
        self._state, gain = self._move(self._state, jnp.asarray(action, jnp.float32), noise_key)
        self._steps += 1
        return self._seen(), float(gain), False, self._steps * self.gap >= self.env.horizon - 1e-9, {}

    def _seen(self) -> np.ndarray:
        assert self._state is not None  # both callers set it
        y = self.spec_of_env.observation.encode(self._state)
        return np.asarray(self.spec_of_env.sensor.measure(y, jax.random.fold_in(self._key, MEASURED)), np.float32)
