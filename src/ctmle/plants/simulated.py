"""A plant that is simulated: an environment's SDE, integrated in short steps."""

import logging
from collections.abc import Callable

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Key, PRNGKeyArray

from ctmle.data.trajectory import Trajectory
from ctmle.envs.base import Env, Spec
from ctmle.envs.observation import ObservationKind
from ctmle.plants.base import Plant
from ctmle.plants.controller import Controller, DecidesLooks
from ctmle.plants.simulate import simulate, simulate_many
from ctmle.plants.ticks import every_tick, run_many_ticks
from ctmle.schedules.base import DecidedLooks, Looks
from ctmle.training.failures import NotFinite

RETRIES, SHORTER = 2, 4.0
"""A simulation that overflows is retried this often, each time with a step this many times shorter."""

log = logging.getLogger("ctmle")


class SimulatedSDE(Plant):
    """An environment as a plant: integrated in steps of at most `step` seconds and seen as `observation` says."""

    env: Env
    step: float = eqx.field(static=True, default=0.01)
    observation: ObservationKind = eqx.field(static=True, default="angles")

    @property
    def spec(self) -> Spec:
        return self.env.spec_for(self.observation)

    def run(
        self, controller: Controller, looks: Looks | DecidedLooks, key: PRNGKeyArray, what: str = "a trajectory"
    ) -> Trajectory:
        def simulation(step: float, stop_short: bool) -> Trajectory:
            how = {"step": step, "observation": self.observation, "stop_short": stop_short}
            return simulate(self.env, controller, looks, key, **how)

        return self._retried(simulation, what)

    def run_many(self, controller: Controller, looks: Looks, keys: Key[Array, " trajectories"]) -> Trajectory:
        def simulation(step: float, stop_short: bool) -> Trajectory:
            how = {"step": step, "observation": self.observation, "stop_short": stop_short}
            if isinstance(controller, DecidesLooks):
                return every_tick(run_many_ticks(self.env, controller, keys, **how))
            return simulate_many(self.env, controller, looks, keys, **how)

        return self._retried(simulation, "a test trajectory")

    def _retried(self, simulation: Callable[[float, bool], Trajectory], what: str) -> Trajectory:
        """Simulate; if a state is NaN or inf, retry with a shorter step.

        Raises NotFinite, which names the method of `env` to fix and the state before it failed, if that does not help.
        """
        step = self.step
        for attempt in range(1 + RETRIES):
            trajectory = simulation(step, False)
            bad = np.any(~np.isfinite(np.asarray(trajectory.states)), axis=-1)
            if not np.any(bad):
                return trajectory
            problem = self._problem(simulation(step, True), np.asarray(bad), step, what)
            if attempt == RETRIES:
                raise problem
            log.warning("%s; retrying with a shorter step", problem)
            step /= SHORTER
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _problem(self, short: Trajectory, bad: np.ndarray, step: float, what: str) -> NotFinite:
        """Describe a path that is NaN or inf at the `bad` looks; `short` is the same path, stopped short."""
        env, (*row, look) = self.env, np.argwhere(bad)[0]
        if look == 0:
            return NotFinite(f"{type(env).__name__}.reset", f"in {what}", "fix that method")
        place = (*row, look)
        x, u = self.spec.observation.decode(short.states[place]), short.controls[place]
        return NotFinite(
            f"{type(env).__name__}.{_method(env, x, u, step)}",
            f"in {what}, simulated at step {step:g} s, before {float(short.times[place]):.4g} s",
            "fix that method if it must handle states like this one; if it need not, a smaller --step may help",
            np.asarray(x, float),
        )


def _method(env: Env, x: jax.Array, u: jax.Array, step: float) -> str:
    """Name the method that returns NaN or inf at a state or where one step from there may lead."""
    drift, spread = env.drift(x, u) * step, 3 * env.diffusion(x, u) * step**0.5
    for point in (x, x + drift, x + drift + spread, x + drift - spread):
        for name, method in (("drift", env.drift), ("diffusion", env.diffusion)):
            if not np.all(np.isfinite(np.asarray(method(point, u)))):
                return name
    return "drift"
