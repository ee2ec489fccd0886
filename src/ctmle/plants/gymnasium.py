"""Gymnasium environments as plants: a control is held for a step, looks fall on steps, ends are data."""

import functools
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PRNGKeyArray

from ctmle.data.drive import Recorded
from ctmle.data.trajectory import Trajectory
from ctmle.envs.base import Spec
from ctmle.envs.observation import Observation
from ctmle.plants.base import Continuous, Controller, Plant
from ctmle.schedules.base import DecidedLooks, Looks
from ctmle.settings import Positive, check_limits
from ctmle.training.failures import NotFinite

try:
    import gymnasium
except ImportError as error:
    raise ImportError("Gymnasium environments need Gymnasium: pip install 'ctmle[plants]'") from error


class GymnasiumPlant(Plant):
    """A Gymnasium environment with continuous observations and actions, by its id or as an object.

    Every step holds an action for `dt` seconds and pays a reward. What the agent knows are the bounds of the actions,
    the step and the horizon: rewards, starts and ends are learned.
    """

    id: str = eqx.field(static=True)
    dt: Positive | None = eqx.field(static=True, default=None)
    """Seconds of a step of the environment; none: what it says itself (`dt`)."""
    horizon: Positive | None = eqx.field(static=True, default=None)
    """[T] Length of an episode in seconds; none: the environment's limit of steps."""
    angles: tuple[int, ...] = eqx.field(static=True, default=())
    """Coordinates of the observation that are angles, from 0: they live on a circle."""
    made: Any = eqx.field(static=True, default=None)
    """The environment itself, if it was given as an object."""

    structure: ClassVar[tuple[str, ...]] = ("id", "made")
    """Fields that are no options."""

    def __check_init__(self) -> None:
        check_limits(self)
        first = self._envs(1)[0]
        where, box = f"{self.id} cannot be controlled", gymnasium.spaces.Box
        action, seen = first.action_space, first.observation_space
        if not isinstance(action, box) or len(action.shape) != 1 or not action.is_bounded():
            raise ValueError(f"{where}: actions must be a bounded Box of one dimension, not {action}")
        if not isinstance(seen, box) or len(seen.shape) != 1:
            hint = "wrap it in gymnasium.wrappers.FlattenObservation"
            raise ValueError(f"{where}: observations must be a Box of one dimension, not {seen}: {hint}")
        if self._own("dt", self.dt) is None:
            raise ValueError(f"{self.id} does not say how long a step is: give --dt, in seconds")
        if self.horizon is None and _limit(first) is None:
            raise ValueError(f"{self.id} has no limit of steps: give --horizon, in seconds")
        if any(not 0 <= index < seen.shape[0] for index in self.angles):
            raise ValueError(f"--angles {self.angles}: {self.id} observes the coordinates 0 to {seen.shape[0] - 1}")

    @staticmethod
    def of(env: "gymnasium.Env", **settings: Any) -> "GymnasiumPlant":
        """Return the plant of an environment that was made already."""
        name = type(env.unwrapped).__name__ if env.spec is None else env.spec.id
        return GymnasiumPlant(name, **settings, made=env)

    @property
    def tuned(self) -> dict[str, dict[str, Any]]:
        """Options that suit it: it looks at every step, and learns what it is paid for and when episodes end."""
        looking = {"gap": self.step, "random_looks": False}
        learned = {"reward": "learned", "survival": "learned"}
        judging = {"rule": "return", "success": None, "warm_up": 0.0, "test_gap": self.step}
        return {"": {**looking, **judging}, **dict.fromkeys(("ct-mle", "enode"), learned)}

    @property
    def step(self) -> float:
        """Seconds of a step."""
        seconds = self._own("dt", self.dt)
        assert seconds is not None  # __check_init__
        return float(seconds)

    @property
    def spec(self) -> Spec:
        first = self._envs(1)[0]
        low, high = (
            tuple(float(bound) for bound in side) for side in (first.action_space.low, first.action_space.high)
        )
        limit = _limit(first)
        horizon = self.horizon if self.horizon is not None or limit is None else limit * self.step
        observation = Observation(first.observation_space.shape[0], self.angles)
        return Spec(None, None, observation, low, high, float(horizon or 0.0), hold=self.step)

    def run(
        self, controller: Controller, looks: Looks | DecidedLooks, key: PRNGKeyArray, what: str = "a trajectory"
    ) -> Trajectory:
        steps = self._steps(looks)
        path = self._driven(controller, key[None], int(steps[-1]), what)
        last = int(path.lasted[0])
        seen = np.append(steps[steps < last], last)
        rewards = np.concatenate([[0.0], np.cumsum(path.rewards[0, :last])])
        controls = path.controls[0, :last]
        ticks = self.step * np.arange(last)
        return Trajectory(
            times=np.asarray(self.step * seen, np.float32),
            states=path.states[0, seen],
            controls=np.concatenate([controls, controls[-1:]])[seen],
            drive=Recorded(jax.device_put(ticks.astype(np.float32)), jax.device_put(controls)),
            rewards=np.diff(rewards[seen]).astype(np.float32),
            ended=bool(path.ended[0]),
        )

    def run_many(self, controller: Controller, looks: Looks, keys: Key[Array, " trajectories"]) -> Trajectory:
        steps = round(float(looks.times[-1]) / self.step)
        path = self._driven(controller, keys, max(1, steps), "a test trajectory")
        times = np.broadcast_to(self.step * np.arange(path.states.shape[1]), path.states.shape[:2])
        controls = np.concatenate([path.controls, path.controls[:, -1:]], axis=1)
        return Trajectory(times, path.states, controls, rewards=path.rewards, ended=path.ended)

    def _steps(self, looks: Looks | DecidedLooks) -> np.ndarray:
        """Return the steps that looks fall on, each once."""
        if isinstance(looks, DecidedLooks):
            raise ValueError(f"{self.id} is driven by policies that see every step: it has no controller of looks")
        steps = np.unique(np.round(np.asarray(looks.times, np.float64) / self.step).astype(int))
        return steps if steps[-1] > 0 else np.asarray([0, 1])

    def _driven(self, controller: Controller, keys: Key[Array, " trajectories"], steps: int, what: str) -> "_Path":
        """Drive as many episodes as there are keys, together if the environment can be made more than once."""
        if not isinstance(controller, Continuous):
            raise ValueError(f"{self.id} is driven by policies that see every step, not by {type(controller).__name__}")
        seeds = [int(seed) for seed in jax.vmap(lambda key: jax.random.randint(key, (), 0, 2**31 - 1))(keys)]
        envs = self._envs(len(seeds))
        parts = [seeds[i : i + len(envs)] for i in range(0, len(seeds), len(envs))]
        return _Path.joined([_together(self, envs, controller, part, steps, what) for part in parts])

    def _envs(self, count: int) -> list[Any]:
        """Return so many copies of the environment; only the one that was given, if it was."""
        if self.made is not None:
            return [self.made]
        made = _copies(self.id)
        while len(made) < count:
            made.append(_make(self.id))
        return made[:count]

    def _own(self, name: str, given: float | None) -> float | None:
        return given if given is not None else getattr(self._envs(1)[0].unwrapped, name, None)


class _Path:
    """Episodes at every step; after their end they stay where they were, and pay nothing."""

    def __init__(self, states: Any, controls: Any, rewards: Any, lasted: Any, ended: Any):
        self.states, self.controls, self.rewards, self.lasted, self.ended = states, controls, rewards, lasted, ended

    @staticmethod
    def joined(paths: list["_Path"]) -> "_Path":
        return _Path(*(np.concatenate(column) for column in zip(*(vars(path).values() for path in paths), strict=True)))


def _together(
    plant: GymnasiumPlant, envs: list[Any], controller: Continuous, seeds: list[int], steps: int, what: str
) -> _Path:
    """Drive an episode in each environment, step by step."""
    size, spec = len(seeds), plant.spec
    low, high = np.asarray(spec.control_low, np.float32), np.asarray(spec.control_high, np.float32)
    states = np.zeros((size, steps + 1, spec.observation.size), np.float32)
    controls = np.zeros((size, steps, spec.control_size), np.float32)
    rewards = np.zeros((size, steps), np.float32)
    lasted, ended, going = np.full(size, steps), np.zeros(size, bool), np.ones(size, bool)
    for i, seed in enumerate(seeds):
        states[i, 0] = envs[i].reset(seed=seed)[0]
    for step in range(steps):
        times = np.full(size, step * plant.step, np.float32)
        controls[:, step] = np.clip(_acting(controller, times, states[:, step]), low, high)
        states[:, step + 1] = states[:, step]
        for i in np.flatnonzero(going):
            seen, reward, terminated, truncated, _ = envs[i].step(controls[i, step])
            states[i, step + 1], rewards[i, step] = seen, reward
            if not (np.all(np.isfinite(states[i, step + 1])) and np.isfinite(rewards[i, step])):
                when = f"in {what}, after {plant.step * (step + 1):.4g} s"
                raise NotFinite(
                    f"what {plant.id} returned", when, "the environment is at fault", states[i, step].tolist()
                )
            if terminated or truncated:
                lasted[i], ended[i], going[i] = step + 1, terminated, False
        if not going.any():
            states[:, step + 2 :] = states[:, step + 1 : step + 2]
            break
    return _Path(states, controls, rewards, lasted, ended)


@eqx.filter_jit
def _acting(controller: Continuous, t: Any, y: Any) -> Float[Array, "episodes control"]:
    return jax.vmap(controller)(jnp.asarray(t), jnp.asarray(y))


@functools.cache
def _copies(name: str) -> list[Any]:
    """Return the environments of this name that were made so far."""
    return []


def _make(name: str) -> Any:
    try:
        return gymnasium.make(name)
    except (gymnasium.error.Error, ImportError, ModuleNotFoundError) as error:
        raise ValueError(f"gymnasium.make('{name}') failed: {error}") from error


def _limit(env: Any) -> int | None:
    """Return the environment's limit of steps."""
    return None if env.spec is None else env.spec.max_episode_steps
