"""What was seen in one episode, and how a simulated plant produces it."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray

from ctmle.data.holding import HeldPath, HoldingPolicy, hold_path
from ctmle.envs.base import Env
from ctmle.envs.observation import ObservationKind
from ctmle.envs.sde import sde_step
from ctmle.schedules.base import DecidedLooks, Looks


class Trajectory(eqx.Module):
    """Looks at one episode: times, observed states, the controls at those times, and the policy that drove it.

    `random` says that grid looks and random looks alternate (see `Looks`). `rewards`, where they were measured, are
    the integrals of the reward over each gap, discounted to its start at the `discount_rate` of a `HoldingPolicy`.
    """

    times: Float[Array, "*batch looks"]
    states: Float[Array, "*batch looks observed"]
    controls: Float[Array, "*batch looks control"]
    policy: Any = None
    random: bool = eqx.field(static=True, default=False)
    rewards: Float[Array, "*batch gaps"] | None = None

    @property
    def looks(self) -> int:
        return self.times.shape[-1]


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
    recomputed from the current state at every one. A new shape of `times` compiles anew; new values do not. A path
    that leaves the finite numbers stays at its last finite state if it is told to `stop_short`.

    With `DecidedLooks` the policy is a `HoldingPolicy`, which says at each look what to hold until which look.
    """
    if isinstance(times, DecidedLooks):
        if not isinstance(policy, HoldingPolicy):
            raise ValueError("looks that the policy decides on need a HoldingPolicy: give times to look at instead")
        path = hold_path(env, policy, key, step=step, observation=observation, start=start, stop_short=stop_short)
        return looked_at(path, policy)
    looks = times if isinstance(times, Looks) else Looks(jnp.asarray(times))
    return _simulate(env, policy, looks, key, start, step, observation, stop_short)


def simulate_many(
    env: Env,
    policy: Any,
    times: Looks,
    keys: Key[Array, " trajectories"],
    *,
    step: float = 0.01,
    observation: ObservationKind = "angles",
    stop_short: bool = False,
) -> Trajectory:
    """`simulate` for a batch of keys in one compiled call; every array gains a leading axis, the policy does not."""
    return _simulate_many(env, policy, times, keys, step, observation, stop_short)


def looks_of(path: HeldPath) -> tuple[Trajectory, Int[Array, ""]]:
    """What was looked at in one episode: every decision, and the end. And how many looks that was.

    The end is repeated up to the number of points, so that shapes are the same for any number of looks.
    """
    points = path.times.shape[0]
    looked = jnp.append(path.decided, True)
    count = jnp.sum(looked).astype(jnp.int32)
    order = jnp.where(jnp.arange(points) < count, jnp.argsort(~looked, stable=True), points - 1)
    looks = Trajectory(
        times=path.times[order],
        states=path.states[order],
        controls=path.point_controls[order],
        rewards=path.discounted[order[1:] - 1],
    )
    return looks, count


def looked_at(path: HeldPath, policy: HoldingPolicy | None = None) -> Trajectory:
    """The same without what is repeated."""
    looks, count = eqx.filter_jit(looks_of)(path)

    def first(column: Array, rows: int) -> Array:
        return jax.device_put(np.asarray(column)[:rows])  # which compiles nothing for a new number of looks

    return Trajectory(
        times=first(looks.times, int(count)),
        states=first(looks.states, int(count)),
        controls=first(looks.controls, int(count)),
        policy=policy,
        rewards=None if looks.rewards is None else first(looks.rewards, int(count) - 1),
    )


def every_tick(path: HeldPath) -> Trajectory:
    """An episode, or a batch of them, as if every tick had been looked at: for tests and pictures."""
    return Trajectory(path.times, path.states, path.point_controls)


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
        states=spec.observation.encode(states),
        controls=jax.vmap(control)(looks.times, states),
        policy=policy,
        random=looks.random,
    )


@eqx.filter_jit
def _simulate_many(
    env: Env,
    policy: Any,
    looks: Looks,
    keys: Key[Array, " trajectories"],
    step: float,
    observation: ObservationKind,
    stop_short: bool,
) -> Trajectory:
    def one(key: PRNGKeyArray) -> Trajectory:
        trajectory = _simulate(env, policy, looks, key, None, step, observation, stop_short)
        return eqx.tree_at(lambda t: t.policy, trajectory, None, is_leaf=lambda leaf: leaf is None)

    batch = jax.vmap(one)(keys)
    return eqx.tree_at(lambda t: t.policy, batch, policy, is_leaf=lambda leaf: leaf is None)
