"""The actor with the statistics that it was trained with, as a controller that decides and holds."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ctmle.agents.sac_tacos.mdp import ExtendedMdp
from ctmle.agents.sac_tacos.networks import Actor
from ctmle.agents.sac_tacos.replay import Statistics
from ctmle.plants.base import Decision, Holds


class TacosPolicy(Holds):
    """Uniformly random decisions (`exploring`), draws from the actor (`drawing`), or the actor's mode (neither)."""

    mdp: ExtendedMdp
    actor: Actor
    statistics: Statistics
    key: PRNGKeyArray
    exploring: Bool[Array, ""]
    drawing: Bool[Array, ""]
    tick: float = eqx.field(static=True)
    discount_rate: float = eqx.field(static=True)
    control_size: int = eqx.field(static=True)

    def decide(self, t: Float[Array, ""], y: Float[Array, " observed"]) -> Decision:
        key = jax.random.fold_in(self.key, jnp.round(t / self.tick).astype(jnp.uint32))
        random_key, noise_key = jax.random.split(key)
        noise = jnp.where(self.drawing, jax.random.normal(noise_key, (self.mdp.actions,)), 0.0)
        action, _ = self.actor.sample(self.statistics.normalise(self.mdp.seen(t, y)), noise)
        return self.mdp.decision(jnp.where(self.exploring, self.mdp.random_action(random_key), action))
