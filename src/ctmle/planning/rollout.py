"""Imagined trajectories: a policy in a world."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ctmle.data.drive import ControlLaw
from ctmle.envs.base import Spec, sde_step
from ctmle.models.laws import parts_of
from ctmle.models.model import ParticleNoise, Particles
from ctmle.models.world import World


class Rollout(eqx.Module):
    """Imagined states, with the reward per second at every point, and the rate of ends if episodes may end."""

    times: Float[Array, "points members particles"]
    states: Float[Array, "points members particles observed"]
    rewards: Float[Array, "points members particles"]
    hazards: Float[Array, "points members particles"] | None = None

    @property
    def alive(self) -> Float[Array, "points members particles"]:
        """The chance that the episode has not ended before each point."""
        if self.hazards is None:
            return jnp.ones_like(self.rewards)
        between = 0.5 * (self.hazards[1:] + self.hazards[:-1]) * jnp.diff(self.times, axis=0)
        return jnp.exp(-jnp.concatenate([jnp.zeros_like(between[:1]), jnp.cumsum(between, axis=0)]))

    @property
    def earned(self) -> Float[Array, "points members particles"]:
        """The expected reward per second: nothing is earned after the end."""
        return self.rewards if self.hazards is None else self.rewards * self.alive


@eqx.filter_jit
def imagine(
    world: World, spec: Spec, feedback: ControlLaw, key: PRNGKeyArray, particles: int, steps: int, step: float
) -> Rollout:
    """Imagine whole episodes from their resets: so many in each member of the world."""
    start_key, noise_key = jax.random.split(key)
    start = jax.vmap(jax.vmap(spec.reset))(jax.random.split(start_key, (world.sde.members, particles)))
    noise = jax.random.normal(noise_key, (steps, *start.shape))
    return rollout(world, feedback, (jnp.zeros(start.shape[:-1]), start), noise, step=step, hold=spec.hold)


def step_within(longest: float, hold: float | None) -> float:
    """Return the longest step of which a held control lasts a whole number; `longest` itself if none is held."""
    return longest if hold is None else hold / parts_of(hold, longest)


def rollout(
    world: World,
    feedback: ControlLaw,
    start: tuple[Float[Array, "members particles"], Particles],
    noise: Float[Array, "steps members particles observed"],
    *,
    step: float,
    hold: float | None = None,
) -> Rollout:
    """Integrate the SDE under a policy from `start` (times and states), one step for each standard normal `noise`.

    Control follows the state, or is computed anew only every `hold` seconds, a whole number of steps.
    """
    begin, y = start
    times = begin + step * jnp.arange(noise.shape[0] + 1, dtype=begin.dtype)[:, None, None]

    def stepped(control: ControlLaw, t: Array, y: Particles, dw: Particles) -> Particles:
        def drift(t: Array, y: Particles) -> Particles:
            return world.sde.drift(y, control(t, y))

        def diffusion(t: Array, y: Particles) -> ParticleNoise:
            return world.sde.diffusion(y, control(t, y))

        return sde_step(drift, diffusion, t, y, jnp.asarray(step), dw)

    def follow(y: Particles, inputs: tuple[Array, Particles]) -> tuple[Particles, Particles]:
        y = stepped(feedback, inputs[0], y, inputs[1])
        return y, y

    def held(carry: tuple[Particles, Array], inputs: tuple[Array, Particles, Array]) -> tuple[Any, Any]:
        (y, u), (t, dw, anew) = carry, inputs
        u = jnp.where(anew, feedback(t, y), u)
        y = stepped(lambda t, y: u, t, y, dw)
        return (y, u), (y, u)

    inputs = (times[:-1], jnp.sqrt(step) * noise)
    if hold is None:
        _, later = jax.lax.scan(follow, y, inputs)
        states = jnp.concatenate([y[None], later])
        controls = feedback(times, states)
    else:
        anew = jnp.arange(len(noise)) % round(hold / step) == 0
        _, (later, acting) = jax.lax.scan(held, (y, feedback(begin, y)), (*inputs, anew))
        states, controls = jnp.concatenate([y[None], later]), jnp.concatenate([acting, acting[-1:]])
    hazards = None if world.hazard is None else world.hazard(times, states, controls)
    return Rollout(times, states, world.reward(times, states, controls), hazards)
