"""Simulated plants: an environment's SDE, integrated in short steps that land exactly on the looks."""

import logging
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PRNGKeyArray

from ctmle.data.drive import ClosedLoop
from ctmle.data.trajectory import Trajectory
from ctmle.envs.base import Env, Noise, Spec, sde_step, spread
from ctmle.envs.observation import ObservationKind
from ctmle.plants.base import Controller, DecidesLooks, Plant
from ctmle.plants.held import Instants, run_held
from ctmle.plants.ticks import decided_trajectory, every_tick, run_many_ticks, run_ticks
from ctmle.schedules.base import DecidedLooks, Looks
from ctmle.training.failures import NotFinite

RETRIES, SHORTER = 2, 4.0
"""A simulation that overflows is retried this often, each time with a step this many times shorter."""

LARGE_STATE = 1e6
"""States beyond this are on their way to overflow: if the control is NaN there, it is not the policy's fault."""

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
        when = f"in {what}, simulated at step {step:g} s, before {float(short.times[place]):.4g} s"
        if not np.all(np.isfinite(np.asarray(u))) and np.max(np.abs(np.asarray(x))) < LARGE_STATE:
            hint = "its weights or its memory are spoilt: go back to a checkpoint or a policy from before"
            return NotFinite("the control of the policy", when, hint, np.asarray(x, float))
        return NotFinite(
            f"{type(env).__name__}.{_method(env, x, u, step)}",
            when,
            "fix that method if it must handle states like this one; if it need not, a smaller --step may help",
            np.asarray(x, float),
        )


def _method(env: Env, x: jax.Array, u: jax.Array, step: float) -> str:
    """Name the method that returns NaN or inf at a state or where one step from there may lead."""
    drift, noise = env.drift(x, u) * step, spread(env.diffusion(x, u), jnp.full_like(x, 3 * step**0.5))
    for point in (x, x + drift, x + drift + noise, x + drift - noise):
        for name, method in (("drift", env.drift), ("diffusion", env.diffusion)):
            if not np.all(np.isfinite(np.asarray(method(point, u)))):
                return name
    return "drift"


def simulate(
    env: Env,
    policy: Any,
    times: Looks | DecidedLooks | Float[Array, " looks"],
    key: PRNGKeyArray,
    *,
    step: float = 0.01,
    observation: ObservationKind = "angles",
    start: Float[Array, " state"] | None = None,
    stop_short: bool = False,
) -> Trajectory:
    """Run `policy` on `env` in continuous time and look exactly at `times` (sorted, from 0).

    Between consecutive looks the SDE is integrated in equal substeps no longer than `step` seconds, with the control
    recomputed from the current state at every one. A new shape of `times` compiles anew; new values do not. With
    `stop_short`, a path that reaches NaN or inf stays at its last finite state.

    An environment with a `hold` is controlled from tick to tick instead: the control is computed from a measurement and
    held, and the trajectory has the record of it as its drive. States are measured by the sensor at each look.

    With `DecidedLooks` the policy is a controller that decides its looks.
    """
    if isinstance(times, DecidedLooks):
        if not isinstance(policy, DecidesLooks):
            raise ValueError("only a controller that decides its looks runs without times: give times to look at")
        path = run_ticks(env, policy, key, step=step, observation=observation, start=start, stop_short=stop_short)
        return decided_trajectory(path)
    looks = times if isinstance(times, Looks) else Looks(jnp.asarray(times))
    return _driven(env, policy, _instants(env, looks), key, start, step, observation, stop_short)[0]


def _instants(env: Env, looks: Looks) -> Looks | Instants:
    """Return when something happens between which the plant runs by itself: at looks, and at ticks if it has them."""
    return looks if env.hold is None else Instants.of(looks, env.hold)


def _driven(
    env: Env,
    policy: Any,
    instants: Looks | Instants,
    key: PRNGKeyArray,
    start: Array | None,
    step: float,
    observation: ObservationKind,
    stop_short: bool,
) -> tuple[Trajectory, Array]:
    """Run in the way that the environment is controlled; return the looks, and the states there without noise."""
    if isinstance(instants, Looks):
        return _simulate(env, policy, instants, key, start, step, observation, stop_short)
    how = {"step": step, "observation": observation, "start": start, "stop_short": stop_short}
    return run_held(env, policy, instants, key, **how)


@eqx.filter_jit
def _simulate(
    env: Env,
    policy: Any,
    looks: Looks,
    key: PRNGKeyArray,
    start: Array | None,
    step: float,
    observation: ObservationKind,
    stop_short: bool,
) -> tuple[Trajectory, Array]:
    spec = env.spec_for(observation)
    start_key, noise_key = jax.random.split(key)
    x0 = env.reset(start_key) if start is None else start

    def control(t: Array, x: Array) -> Array:
        return spec.clip(policy(t, spec.observation.encode(x)))

    def drift(t: Array, x: Array) -> Array:
        return env.drift(x, control(t, x))

    def diffusion(t: Array, x: Array) -> Noise:
        return env.diffusion(x, control(t, x))

    def to_next_look(x: Array, interval: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        t, gap, interval_key = interval
        substeps = jnp.maximum(jnp.ceil(gap / step - 1e-4), 1)
        dt = gap / substeps

        def substep(i: Array, x: Array) -> Array:
            dw = jnp.sqrt(dt) * jax.random.normal(jax.random.fold_in(interval_key, i), x.shape)
            later = sde_step(drift, diffusion, t + i.astype(dt.dtype) * dt, x, dt, dw)
            return jnp.where(jnp.all(jnp.isfinite(later)), later, x) if stop_short else later

        x = jax.lax.fori_loop(0, substeps.astype(jnp.int32), substep, x)
        return x, x

    gaps = jnp.diff(looks.times)
    keys = jax.random.split(noise_key, gaps.shape[0])
    _, later = jax.lax.scan(to_next_look, x0, (looks.times[:-1], gaps, keys))
    states = jnp.concatenate([x0[None], later])
    exact = spec.observation.encode(states)
    seen = Trajectory(
        times=looks.times,
        states=spec.sensor.measure(exact, jax.random.fold_in(noise_key, gaps.shape[0])),
        controls=jax.vmap(control)(looks.times, states),
        drive=ClosedLoop(policy),
        random=looks.random,
    )
    return seen, exact


def simulate_many(
    env: Env,
    policy: Any,
    looks: Looks,
    keys: Key[Array, " trajectories"],
    *,
    step: float = 0.01,
    observation: ObservationKind = "angles",
    stop_short: bool = False,
) -> Trajectory:
    """Run `simulate` for a batch of keys in one compiled call, and return the states without the sensor's noise.

    Every array gets a leading axis; times and the policy do not.
    """
    states, controls = _many(env, policy, _instants(env, looks), keys, step, observation, stop_short)
    times = jnp.broadcast_to(looks.times, states.shape[:2])
    return Trajectory(times, states, controls, policy if env.hold is None else None, looks.random)


@eqx.filter_jit
def _many(
    env: Env,
    policy: Any,
    instants: Looks | Instants,
    keys: Key[Array, " trajectories"],
    step: float,
    observation: ObservationKind,
    stop_short: bool,
) -> tuple[Array, Array]:
    def one(key: PRNGKeyArray) -> tuple[Array, Array]:
        seen, exact = _driven(env, policy, instants, key, None, step, observation, stop_short)
        return exact, seen.controls

    return jax.vmap(one)(keys)
