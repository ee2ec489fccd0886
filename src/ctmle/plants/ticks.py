"""Simulation under a controller that decides its looks: the plant runs tick by tick."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray

from ctmle.data.drive import Recorded
from ctmle.data.trajectory import Trajectory
from ctmle.envs.base import Env, Noise, sde_step
from ctmle.envs.observation import ObservationKind
from ctmle.plants.base import DecidesLooks

MEASURED = 2**31 - 1
"""Random stream of the sensor at a tick, whose substeps have the streams 0, 1, ..."""


class TickPath(eqx.Module):
    """An episode at every tick. Only the points with `decided`, and the last one, were looked at: as `measured`.

    `gains` is the integral of the reward over each tick; `discounted` the integral from the last decision to the end of
    the tick, discounted to the time of that decision.
    """

    times: Float[Array, "*batch points"]
    states: Float[Array, "*batch points observed"]
    measured: Float[Array, "*batch points observed"]
    controls: Float[Array, "*batch ticks control"]
    decided: Bool[Array, "*batch ticks"]
    gains: Float[Array, "*batch ticks"]
    discounted: Float[Array, "*batch ticks"]

    @property
    def point_controls(self) -> Float[Array, "*batch points control"]:
        """The control at every point; at the end, the last one that acted."""
        return jnp.concatenate([self.controls, self.controls[..., -1:, :]], axis=-2)


@eqx.filter_jit
def run_ticks(
    env: Env,
    controller: DecidesLooks,
    key: PRNGKeyArray,
    *,
    step: float = 0.01,
    observation: ObservationKind = "angles",
    start: Float[Array, " state"] | None = None,
    stop_short: bool = False,
) -> TickPath:
    """Run `controller` on `env` from a start to the horizon, where the last hold (or tick) is cut.

    The plant is integrated in equal substeps of each tick, none longer than `step` seconds; the reward by the
    trapezoidal rule over them. With `stop_short`, a path that reaches NaN or inf stays at its last finite state.
    """
    spec = env.spec_for(observation)
    start_key, noise_key = jax.random.split(key)
    x = env.reset(start_key) if start is None else start
    times = jnp.asarray(tick_times(controller.tick, env.horizon), x.dtype)
    substeps = max(1, math.ceil(controller.tick / step - 1e-4))

    def measured(x: Array, key: PRNGKeyArray) -> Array:
        return spec.sensor.measure(spec.observation.encode(x), jax.random.fold_in(key, MEASURED))

    def one_tick(carry: tuple, inputs: tuple[Array, Array, PRNGKeyArray]) -> tuple[tuple, tuple]:
        x, memory, left, gained, discount = carry
        t, dt, tick_key = inputs
        decided, y = left == 0, measured(x, tick_key)

        def look() -> tuple[Any, Array]:
            now = controller.look(memory, t, y)
            ticks = jnp.maximum(jnp.round(controller.next_look(now, t) / controller.tick), 1).astype(jnp.int32)
            return now, ticks

        memory, left = jax.lax.cond(decided, look, lambda: (memory, left))
        u = spec.clip(controller.control(memory, t))
        gained, discount = jnp.where(decided, 0.0, gained), jnp.where(decided, 1.0, discount)
        x, gain, discounted = integrate(env, x, u, dt, controller.discount_rate, substeps, tick_key, stop_short)
        gained = gained + discount * discounted
        discount = discount * jnp.exp(-controller.discount_rate * dt)
        return (x, memory, left - 1, gained, discount), (y, x, u, decided, gain, gained)

    zero = jnp.zeros((), x.dtype)
    carry = (x, controller.begin(), jnp.zeros((), jnp.int32), zero, zero + 1)
    inputs = (times[:-1], jnp.diff(times), jax.random.split(noise_key, times.shape[0] - 1))
    (end, *_), (seen, later, controls, decided, gains, discounted) = jax.lax.scan(one_tick, carry, inputs)
    states = spec.observation.encode(jnp.concatenate([x[None], later]))
    seen = jnp.concatenate([seen, measured(end, noise_key)[None]])
    return TickPath(times, states, seen, controls, decided, gains, discounted)


@eqx.filter_jit
def run_many_ticks(
    env: Env,
    controller: DecidesLooks,
    keys: Key[Array, " trajectories"],
    *,
    step: float = 0.01,
    observation: ObservationKind = "angles",
    stop_short: bool = False,
) -> TickPath:
    """Run `run_ticks` for a batch of keys in one compiled call."""

    def one(key: PRNGKeyArray) -> TickPath:
        return run_ticks(env, controller, key, step=step, observation=observation, stop_short=stop_short)

    return jax.vmap(one)(keys)


def tick_times(tick: float, horizon: float) -> np.ndarray:
    """Return 0, tick, 2 tick, ... and the horizon; the last tick is shorter if they do not divide."""
    if not 0 < tick <= horizon:
        raise ValueError(f"tick must be a positive number of seconds, at most the horizon {horizon:g} s, not {tick}")
    count = math.ceil(horizon / tick - 1e-6)
    return np.append(tick * np.arange(count), horizon)


def integrate(
    env: Env,
    x: Array,
    u: Array,
    dt: Array,
    discount_rate: float,
    substeps: int,
    key: PRNGKeyArray,
    stop_short: bool = False,
) -> tuple[Array, Array, Array]:
    """Return the state after `dt` under a constant control, and the integral of the reward, plain and discounted."""
    h = dt / substeps

    def drift(t: Array, x: Array) -> Array:
        return env.drift(x, u)

    def diffusion(t: Array, x: Array) -> Noise:
        return env.diffusion(x, u)

    def substep(i: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        x, gain, discounted = carry
        s = i.astype(x.dtype) * h
        dw = jnp.sqrt(h) * jax.random.normal(jax.random.fold_in(key, i), x.shape, x.dtype)
        later = sde_step(drift, diffusion, s, x, h, dw)
        if stop_short:
            later = jnp.where(jnp.all(jnp.isfinite(later)), later, x)
        here, there = env.reward(x, u), env.reward(later, u)
        weight = jnp.exp(-discount_rate * s), jnp.exp(-discount_rate * (s + h))
        gain = gain + 0.5 * h * (here + there)
        discounted = discounted + 0.5 * h * (weight[0] * here + weight[1] * there)
        return later, gain, discounted

    zero = jnp.zeros((), x.dtype)
    return jax.lax.fori_loop(0, substeps, substep, (x, zero, zero))


def looks_of(path: TickPath) -> tuple[Trajectory, Int[Array, ""]]:
    """Return what was looked at in one episode (every decision, and the end), and the number of looks.

    The end is repeated up to the number of points, so that shapes are the same for any number of looks.
    """
    points = path.times.shape[0]
    looked = jnp.append(path.decided, True)
    count = jnp.sum(looked).astype(jnp.int32)
    order = jnp.where(jnp.arange(points) < count, jnp.argsort(~looked, stable=True), points - 1)
    times, controls = path.times[order], path.point_controls[order]
    looks = Trajectory(
        times=times,
        states=path.measured[order],
        controls=controls,
        drive=Recorded(times, controls),
        rewards=path.discounted[order[1:] - 1],
    )
    return looks, count


def decided_trajectory(path: TickPath) -> Trajectory:
    """Return the looks of one episode, each once."""
    looks, count = eqx.filter_jit(looks_of)(path)

    def first(column: Any, rows: int) -> Array:
        return jax.device_put(np.asarray(column)[:rows])  # which compiles nothing for a new number of looks

    times, controls = first(looks.times, int(count)), first(looks.controls, int(count))
    return Trajectory(
        times=times,
        states=first(looks.states, int(count)),
        controls=controls,
        drive=Recorded(times, controls),
        rewards=first(looks.rewards, int(count) - 1),
    )


def every_tick(path: TickPath) -> Trajectory:
    """Return an episode, or a batch of them, as if every tick had been looked at: for tests and plots."""
    return Trajectory(path.times, path.states, path.point_controls)
