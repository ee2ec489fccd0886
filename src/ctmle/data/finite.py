"""A plant's numbers, looked at before anybody learns from them."""

import logging
from collections.abc import Callable

import numpy as np
from jaxtyping import Array

from ctmle.data.trajectory import Trajectory
from ctmle.envs.base import Env
from ctmle.envs.observation import Observation
from ctmle.finite import NotFinite

CUTS, CUT = 2, 4.0
"""A simulation that overflows is tried again this often, each time with a step this many times shorter."""

Simulation = Callable[[float, bool], Trajectory]
"""A trajectory, or a batch of them, from the longest step and whether to stop short of what is not finite."""

log = logging.getLogger("ctmle")


def simulate_safely(env: Env, observation: Observation, simulation: Simulation, step: float, what: str) -> Trajectory:
    """The trajectories of a simulation, all numbers. Where it overflows, its step is cut.

    Raises NotFinite, which names the method of `env` to mend and the state before the trouble, if that does not help.
    """
    for attempt in range(1 + CUTS):
        trajectory = simulation(step, False)
        bad = np.any(~np.isfinite(np.asarray(trajectory.states)), axis=-1)
        if not np.any(bad):
            return trajectory
        trouble = _trouble(env, observation, simulation(step, True), np.asarray(bad), step, what)
        if attempt == CUTS:
            raise trouble
        log.warning("%s; trying a shorter step", trouble)
        step /= CUT
    raise AssertionError("unreachable: the last attempt returns or raises")


def _trouble(
    env: Env, observation: Observation, short: Trajectory, bad: np.ndarray, step: float, what: str
) -> NotFinite:
    """What to say of a path that was not finite at the `bad` looks; `short` is the same path, stopped short."""
    *row, look = np.argwhere(bad)[0]
    if look == 0:
        return NotFinite(f"{type(env).__name__}.reset", f"in {what}", "mend that method")
    x, u = observation.decode(short.states[(*row, look)]), short.controls[(*row, look)]
    return NotFinite(
        f"{type(env).__name__}.{_culprit(env, x, u, step)}",
        f"in {what}, simulated at step {step:g} s, before {float(short.times[(*row, look)]):.4g} s",
        "mend that method if it must handle states like this one; if it need not, a smaller --step may help",
        np.asarray(x, float),
    )


def _culprit(env: Env, x: Array, u: Array, step: float) -> str:
    """The method that gives no number at a state or where one step from there may lead."""
    drift, spread = env.drift(x, u) * step, 3 * env.diffusion(x, u) * step**0.5
    for point in (x, x + drift, x + drift + spread, x + drift - spread):
        for name, method in (("drift", env.drift), ("diffusion", env.diffusion)):
            if not np.all(np.isfinite(np.asarray(method(point, u)))):
                return name
    return "drift"


def check_looks(trajectory: Trajectory) -> None:
    """Raises ValueError for too few looks, NotFinite for a look of any plant, simulated or real, with NaN or inf."""
    looks, least = trajectory.looks, 3 if trajectory.random else 2
    if looks < least or (trajectory.random and looks % 2 == 0):
        kind = "grid looks with a random look between each two, so 3, 5, 7, ..." if trajectory.random else "2 or more"
        raise ValueError(f"a trajectory with {looks} looks has no gap to learn from: it needs {kind}")
    for name, values in (
        ("time", np.asarray(trajectory.times)[:, None]),
        ("state", trajectory.states),
        ("control", trajectory.controls),
    ):
        bad = np.flatnonzero(~np.isfinite(np.asarray(values)).all(axis=1))
        if bad.size:
            raise NotFinite(f"the {name} of look {bad[0]}", "in this trajectory", "mend the look, or leave it out")


def check_rewards(env: Env, states: np.ndarray, rewards: np.ndarray, where: str) -> None:
    """Raises NotFinite for the first reward that is not a number, with the observed state it was given for."""
    bad = np.flatnonzero(~np.isfinite(rewards).reshape(-1))
    if bad.size:
        state = states.reshape(-1, states.shape[-1])[bad[0]]
        raise NotFinite(f"{type(env).__name__}.reward", where, "mend that method", state)
