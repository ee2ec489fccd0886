"""Simulation of a controlled SDE that lands exactly on the looks."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PRNGKeyArray

from ctmle.data.drive import ClosedLoop
from ctmle.data.trajectory import Trajectory
from ctmle.envs.base import Env, sde_step
from ctmle.envs.observation import ObservationKind
from ctmle.plants.controller import DecidesLooks
from ctmle.plants.ticks import decided_trajectory, run_ticks
from ctmle.schedules.base import DecidedLooks, Looks


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

    With `DecidedLooks` the policy is a controller that decides its looks.
    """
    if isinstance(times, DecidedLooks):
        if not isinstance(policy, DecidesLooks):
            raise ValueError("only a controller that decides its looks runs without times: give times to look at")
        path = run_ticks(env, policy, key, step=step, observation=observation, start=start, stop_short=stop_short)
        return decided_trajectory(path)
    looks = times if isinstance(times, Looks) else Looks(jnp.asarray(times))
    return _simulate(env, policy, looks, key, start, step, observation, stop_short)


@eqx.filter_jit
def _simulate(
    env: Env,
    policy: Any,
    looks: Looks,
    key: PRNGKeyArray,
    start: Array | None,
    step: float,
    observation: ObservationKind,
    stop_short: bool = False,
) -> Trajectory:
    spec = env.spec_for(observation)
    start_key, noise_key = jax.random.split(key)
    x0 = env.reset(start_key) if start is None else start

    def control(t: Array, x: Array) -> Array:
        return spec.clip(policy(t, spec.observation.encode(x)))

    def drift(t: Array, x: Array) -> Array:
        return env.drift(x, control(t, x))

    def diffusion(t: Array, x: Array) -> Array:
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
    return Trajectory(
        times=looks.times,
        states=spec.sensor.measure(spec.observation.encode(states), jax.random.fold_in(noise_key, gaps.shape[0])),
        controls=jax.vmap(control)(looks.times, states),
        drive=ClosedLoop(policy),
        random=looks.random,
    )


@eqx.filter_jit
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
    """Run `simulate` for a batch of keys in one compiled call; every array gets a leading axis, the policy does not."""

    def one(key: PRNGKeyArray) -> tuple[Array, Array, Array]:
        seen = _simulate(env, policy, looks, key, None, step, observation, stop_short)
        return seen.times, seen.states, seen.controls

    return Trajectory(*jax.vmap(one)(keys), ClosedLoop(policy), looks.random)
