"""An episode under a policy that decides what to do and for how long: the extended MDP on a controlled SDE.

Treven et al. (2024), "When to Sense and Control?", section 3: between two looks the control is constant, and the reward
of a decision is the integral of the reward over its hold.
"""

import math
from abc import abstractmethod
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key, PRNGKeyArray

from ctmle.envs.base import Env
from ctmle.envs.observation import ObservationKind
from ctmle.envs.sde import sde_step


class Decision(NamedTuple):
    """What to do from now on, and for how many seconds before the next look."""

    control: Float[Array, " control"]
    hold: Float[Array, ""]


class HoldingPolicy(eqx.Module):
    """A policy for plants that are looked at only when it says so.

    Drive a plant of your own with it: look, `decide`, hold the control for the seconds it names, look again. Holds are
    whole numbers of ticks. `discount_rate` is beta in the reward of a decision, the integral of exp(-beta s) b over the
    hold.
    """

    tick: eqx.AbstractVar[float]
    discount_rate: eqx.AbstractVar[float]

    @abstractmethod
    def decide(self, t: Float[Array, ""], y: Float[Array, " observed"]) -> Decision:
        """A pure function of the look: what is random about it comes from a key inside the policy."""


class HeldPath(eqx.Module):
    """An episode at every tick. Only the points at which it `decided`, and the last one, were looked at.

    `gains` is the integral of the reward over each tick; `discounted` the integral from the last decision to the end of
    the tick, discounted to the time of that decision.
    """

    times: Float[Array, "*batch points"]
    states: Float[Array, "*batch points observed"]
    controls: Float[Array, "*batch ticks control"]
    decided: Bool[Array, "*batch ticks"]
    gains: Float[Array, "*batch ticks"]
    discounted: Float[Array, "*batch ticks"]

    @property
    def point_controls(self) -> Float[Array, "*batch points control"]:
        """The control at every point; at the end, the one that was held into it."""
        return jnp.concatenate([self.controls, self.controls[..., -1:, :]], axis=-2)


@eqx.filter_jit
def hold_path(
    env: Env,
    policy: HoldingPolicy,
    key: PRNGKeyArray,
    *,
    step: float = 0.01,
    observation: ObservationKind = "angles",
    start: Float[Array, " state"] | None = None,
    stop_short: bool = False,
) -> HeldPath:
    """Run `policy` on `env` from a start to the horizon; the last hold (and, if need be, tick) is cut there.

    The plant is integrated in equal substeps of each tick, none longer than `step` seconds; the reward by the
    trapezoidal rule over them. A path that leaves the finite numbers stays at its last finite state if it is told to
    `stop_short`.
    """
    spec = env.spec_for(observation)
    start_key, noise_key = jax.random.split(key)
    x = env.reset(start_key) if start is None else start
    times = jnp.asarray(tick_times(policy.tick, env.horizon), x.dtype)
    substeps = max(1, math.ceil(policy.tick / step - 1e-4))

    def hold_one_tick(carry: tuple, inputs: tuple[Array, Array, PRNGKeyArray]) -> tuple[tuple, tuple]:
        x, held, left, gained, discount = carry
        t, dt, tick_key = inputs
        decided = left == 0

        def look() -> tuple[Array, Array]:
            control, hold = policy.decide(t, spec.observation.encode(x))
            ticks = jnp.maximum(jnp.round(hold / policy.tick), 1).astype(jnp.int32)
            return spec.clip(control), ticks

        u, left = jax.lax.cond(decided, look, lambda: (held, left))
        gained, discount = jnp.where(decided, 0.0, gained), jnp.where(decided, 1.0, discount)
        x, gain, discounted = integrate(env, x, u, dt, policy.discount_rate, substeps, tick_key, stop_short)
        gained = gained + discount * discounted
        discount = discount * jnp.exp(-policy.discount_rate * dt)
        return (x, u, left - 1, gained, discount), (x, u, decided, gain, gained)

    zero = jnp.zeros((), x.dtype)
    carry = (x, jnp.zeros(spec.control_size, x.dtype), jnp.zeros((), jnp.int32), zero, zero + 1)
    inputs = (times[:-1], jnp.diff(times), jax.random.split(noise_key, times.shape[0] - 1))
    _, (later, controls, decided, gains, discounted) = jax.lax.scan(hold_one_tick, carry, inputs)
    states = spec.observation.encode(jnp.concatenate([x[None], later]))
    return HeldPath(times, states, controls, decided, gains, discounted)


@eqx.filter_jit
def hold_paths(
    env: Env,
    policy: HoldingPolicy,
    keys: Key[Array, " trajectories"],
    *,
    step: float = 0.01,
    observation: ObservationKind = "angles",
    stop_short: bool = False,
) -> HeldPath:
    """`hold_path` for a batch of keys in one compiled call."""

    def one(key: PRNGKeyArray) -> HeldPath:
        return hold_path(env, policy, key, step=step, observation=observation, stop_short=stop_short)

    return jax.vmap(one)(keys)


def tick_times(tick: float, horizon: float) -> np.ndarray:
    """0, tick, 2 tick, ... and the horizon; the last tick is shorter if they do not divide."""
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
    """The state after `dt` under a constant control, and the integral of the reward, plain and discounted."""
    h = dt / substeps

    def drift(t: Array, x: Array) -> Array:
        return env.drift(x, u)

    def diffusion(t: Array, x: Array) -> Array:
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
