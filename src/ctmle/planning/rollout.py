"""Running a policy inside a believed SDE."""

from typing import Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ctmle.dynamics.model import SDE, Dynamics
from ctmle.envs.base import Env, Spec
from ctmle.envs.sde import sde_step
from ctmle.planning.policy import Feedback

Particles = Float[Array, "members particles observed"]
ParticleControls = Float[Array, "members particles control"]


@runtime_checkable
class World(SDE, Protocol):
    """An SDE over particles that are spread over members: what a policy is improved in."""

    @property
    def members(self) -> int: ...

    @property
    def noisy(self) -> bool:
        """Whether it is an SDE at all, and not an ODE."""
        ...


class LearnedWorld(eqx.Module):
    """Each particle follows the member that it belongs to: the ensemble's expectation at the cost of one member."""

    ensemble: Dynamics

    @property
    def members(self) -> int:
        return self.ensemble.drift_scale.shape[0]

    @property
    def noisy(self) -> bool:
        return self.ensemble.log_scale is not None

    def drift(self, y: Particles, u: ParticleControls) -> Particles:
        return eqx.filter_vmap(lambda member, y, u: member.drift(y, u))(self.ensemble, y, u)

    def diffusion(self, y: Particles, u: ParticleControls) -> Particles:
        return eqx.filter_vmap(lambda member, y, u: member.diffusion(y, u))(self.ensemble, y, u)


class TrueWorld(eqx.Module):
    """The true SDE, for the oracle: the same improver on it gives the u* that regret is measured against."""

    env: Env

    @property
    def members(self) -> int:
        return 1

    @property
    def noisy(self) -> bool:
        return True

    def drift(self, y: Particles, u: ParticleControls) -> Particles:
        return jax.vmap(jax.vmap(self.env.drift))(y, u)

    def diffusion(self, y: Particles, u: ParticleControls) -> Particles:
        return jax.vmap(jax.vmap(self.env.diffusion))(y, u)


class Rollout(eqx.Module):
    states: Float[Array, "points members particles observed"]
    rewards: Float[Array, "points members particles"]


def rollout(
    world: World,
    spec: Spec,
    feedback: Feedback,
    start: Particles,
    noise: Float[Array, "steps members particles observed"],
    *,
    step: float,
) -> Rollout:
    """Steps of the closed-loop SDE, one for each standard normal `noise`, with the reward per second at every point."""

    def drift(t: Array, y: Particles) -> Particles:
        return world.drift(y, feedback(y))

    def diffusion(t: Array, y: Particles) -> Particles:
        return world.diffusion(y, feedback(y))

    def body(y: Particles, dw: Particles) -> tuple[Particles, Particles]:
        y = sde_step(drift, diffusion, jnp.zeros(()), y, jnp.asarray(step), dw)
        return y, y

    _, later = jax.lax.scan(body, start, jnp.sqrt(step) * noise)
    states = jnp.concatenate([start[None], later])
    return Rollout(states, spec.reward(states, feedback(states)))
