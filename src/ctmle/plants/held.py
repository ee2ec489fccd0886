"""Simulation of a held control: computed from a measurement at every tick of the plant, constant from tick to tick."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ctmle.data.drive import Recorded
from ctmle.data.trajectory import Trajectory
from ctmle.envs.base import Env
from ctmle.envs.observation import ObservationKind
from ctmle.plants.ticks import integrate
from ctmle.schedules.base import Looks

TOGETHER = 1e-3
"""Share of a period within which a look and a tick are the same instant: times are rounded."""


class Instants(eqx.Module):
    """All ticks and looks of an episode, in order, and where looks and ticks are among them."""

    times: Float[Array, " instants"]
    ticking: Bool[Array, " instants"]
    looks: Int[Array, " looks"]
    ticks: Int[Array, " ticks"]
    random: bool = eqx.field(static=True)

    @staticmethod
    def of(looks: Looks, hold: float) -> "Instants":
        """Merge looks with ticks of this period, from 0 to the last look; there the episode ends without a tick."""
        seen = np.asarray(looks.times, np.float64)
        ticks = hold * np.arange(max(1, math.ceil(seen[-1] / hold - TOGETHER)))
        nearest = seen[np.clip(np.searchsorted(seen, ticks - TOGETHER * hold), 0, len(seen) - 1)]
        ticks = np.where(np.abs(nearest - ticks) <= TOGETHER * hold, nearest, ticks)
        times = np.union1d(seen, ticks)
        at_looks, at_ticks = (np.searchsorted(times, some).astype(np.int32) for some in (seen, ticks))
        columns = (times.astype(np.float32), np.isin(times, ticks), at_looks, at_ticks)
        merged, ticking, at_looks, at_ticks = jax.device_put(columns)
        return Instants(merged, ticking, at_looks, at_ticks, random=looks.random)


@eqx.filter_jit
def run_held(
    env: Env,
    policy: Any,
    instants: Instants,
    key: PRNGKeyArray,
    *,
    step: float = 0.01,
    observation: ObservationKind = "angles",
    start: Float[Array, " state"] | None = None,
    stop_short: bool = False,
) -> tuple[Trajectory, Float[Array, "looks observed"]]:
    """Run `policy` on a plant that holds its controls; return what was looked at, and the states there without noise.

    There is one measurement at each instant: if a look falls on a tick, the control was computed from that look.
    """
    assert env.hold is not None  # callers ask only then
    spec = env.spec_for(observation)
    start_key, noise_key, sensor_key = jax.random.split(key, 3)
    x0 = env.reset(start_key) if start is None else start
    substeps = max(1, math.ceil(env.hold / step - 1e-4))

    def to_next(carry: tuple[Array, Array], inputs: tuple[Array, ...]) -> tuple[tuple[Array, Array], tuple[Array, ...]]:
        (x, u), (t, gap, ticking, number) = carry, inputs
        exact = spec.observation.encode(x)
        y = spec.sensor.measure(exact, jax.random.fold_in(sensor_key, number))
        u = jnp.where(ticking, spec.clip(policy(t, y)), u)
        noise = jax.random.fold_in(noise_key, number)
        later, _, _ = integrate(env, x, u, gap, 0.0, substeps, noise, stop_short)
        return (later, u), (y, u, exact)

    times = instants.times
    gaps = jnp.diff(times, append=times[-1:])  # nothing happens after the last instant
    inputs = (times, gaps, instants.ticking, jnp.arange(len(times)))
    _, (measured, controls, exact) = jax.lax.scan(to_next, (x0, jnp.zeros(spec.control_size, x0.dtype)), inputs)
    looks, ticks = instants.looks, instants.ticks
    drive = Recorded(times[ticks], controls[ticks])
    return Trajectory(times[looks], measured[looks], controls[looks], drive, instants.random), exact[looks]
