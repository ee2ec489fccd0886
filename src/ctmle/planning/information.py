"""How much a trajectory would tell apart the models that the data leaves possible."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ctmle.envs.base import Spec
from ctmle.models.flow import deviation
from ctmle.models.world import World
from ctmle.planning.policy import Policy
from ctmle.planning.rollout import imagine

IMAGINED = 4
"""Members under which trajectories are imagined; all members say what they expect along them."""


@eqx.filter_jit
def information(
    world: World, spec: Spec, policies: Policy, key: PRNGKeyArray, steps: int, step: float
) -> Float[Array, " policies"]:
    """Return the nats per second that imagined trajectories of each of the stacked policies tell.

    Where members expect drifts with a variance v and the noise has the level g, a step tells log(1 + v step / g^2) / 2
    per coordinate. What one step tells is not subtracted from the next, so this is an upper bound that compares.
    """
    world = world.doubted
    sde, few = world.sde, range(0, world.sde.members, max(1, world.sde.members // IMAGINED))

    def one(policy: Policy) -> Array:
        """Return what one policy tells."""
        path = imagine(world, spec, policy, key, 1, steps, step)
        t, y = (leaf[:, jnp.asarray(few), 0] for leaf in (path.times, path.states))
        points = y.reshape(-1, y.shape[-1])
        copies = [
            jnp.broadcast_to(leaf, (sde.members, *leaf.shape)) for leaf in (points, policy(t.reshape(-1), points))
        ]
        variance = jnp.var(sde.drift(*copies), axis=0)
        level = jnp.mean(deviation(sde.diffusion(*copies), copies[0]), axis=0)
        return jnp.mean(jnp.sum(0.5 * jnp.log1p(variance * step / level**2), axis=-1)) / step

    arrays, static = eqx.partition(policies, eqx.is_array)
    return jax.lax.map(lambda leaves: one(eqx.combine(leaves, static)), arrays)


def stacked(policies: list[Policy]) -> Policy:
    """Stack the arrays of policies."""
    arrays = [eqx.filter(policy, eqx.is_array) for policy in policies]
    return eqx.combine(jax.tree.map(lambda *leaves: jnp.stack(leaves), *arrays), policies[0])
