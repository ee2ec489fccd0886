"""Imagined trajectories: a policy in a world."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ctmle.data.drive import ControlLaw
from ctmle.envs.base import Spec, sde_step
from ctmle.models.model import ParticleNoise, Particles
from ctmle.models.world import World


class Rollout(eqx.Module):
    """Imagined states, with the reward per second at every point."""

    times: Float[Array, "points members particles"]
    states: Float[Array, "points members particles observed"]
    rewards: Float[Array, "points members particles"]


@eqx.filter_jit
def imagine(
    world: World, spec: Spec, feedback: ControlLaw, key: PRNGKeyArray, particles: int, steps: int, step: float
) -> Rollout:
    """Imagine whole episodes from their resets: so many in each member of the world."""
    start_key, noise_key = jax.random.split(key)
    start = jax.vmap(jax.vmap(spec.reset))(jax.random.split(start_key, (world.sde.members, particles)))
    noise = jax.random.normal(noise_key, (steps, *start.shape))
    return rollout(world, feedback, (jnp.zeros(start.shape[:-1]), start), noise, step=step)


def rollout(
    world: World,
    feedback: ControlLaw,
    start: tuple[Float[Array, "members particles"], Particles],
    noise: Float[Array, "steps members particles observed"],
    *,
    step: float,
) -> Rollout:
    """Integrate the closed-loop SDE from `start` (times and states), one step for each standard normal `noise`."""
    begin, y = start
    times = begin + step * jnp.arange(noise.shape[0] + 1, dtype=begin.dtype)[:, None, None]

    def drift(t: Array, y: Particles) -> Particles:
        return world.sde.drift(y, feedback(t, y))

    def diffusion(t: Array, y: Particles) -> ParticleNoise:
        return world.sde.diffusion(y, feedback(t, y))

    def body(y: Particles, inputs: tuple[Array, Particles]) -> tuple[Particles, Particles]:
        t, dw = inputs
        y = sde_step(drift, diffusion, t, y, jnp.asarray(step), dw)
        return y, y

    _, later = jax.lax.scan(body, y, (times[:-1], jnp.sqrt(step) * noise))
    states = jnp.concatenate([y[None], later])
    return Rollout(times, states, world.reward(times, states, feedback(times, states)))
