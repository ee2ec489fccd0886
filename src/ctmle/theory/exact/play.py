"""Exact CT-MLE against its own truth, many seeds and many instances in one compiled call."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray

from ctmle.schedules.base import Schedule
from ctmle.theory.classes import walk
from ctmle.theory.exact.agent import ExactCTMLE, ExactState
from ctmle.theory.precision import in_double


class Play(eqx.Module):
    """What happened in an episode; stacked over [agents, seeds, episodes] by `play`."""

    policy: Int[Array, "*batch"]
    regret: Float[Array, "*batch"]
    """R(u*) - R(u_n) under the truth."""
    variance: Float[Array, "*batch"]
    """Var^{u_n} under the truth."""
    grid_covers: Bool[Array, "*batch"]
    """The truth is in P_n."""
    extra_covers: Bool[Array, "*batch"]
    """The truth is in hat-P_n."""
    grid_size: Int[Array, "*batch"]
    both_size: Int[Array, "*batch"]
    """Models in P_n, and in both sets."""
    empty: Bool[Array, "*batch"]


@in_double
def play(agents: ExactCTMLE, schedule: Schedule, episodes: int, keys: Key[Array, " seeds"]) -> Play:
    """Every seed on every agent of a stack (`stack`): arrays of shape [agents, seeds, episodes]."""
    return _play(agents, schedule, episodes, keys)


@in_double
def stack(agents: list[ExactCTMLE]) -> ExactCTMLE:
    """Agents of one shape as one tree, so that one compiled call serves them all."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *agents)


@eqx.filter_jit
def _play(agents: ExactCTMLE, schedule: Schedule, episodes: int, keys: Key[Array, " seeds"]) -> Play:
    def one(agent: ExactCTMLE, key: PRNGKeyArray) -> Play:
        init_key, world_key = jax.random.split(key)

        def episode(state: ExactState, n: Array) -> tuple[ExactState, Play]:
            state, choice, looks = agent.propose(state, schedule)
            states = walk(agent.models, choice.policy, looks.times, jax.random.fold_in(world_key, n))
            truth, values = agent.models.truth, agent.models.values
            outcome = Play(
                policy=choice.policy,
                regret=jnp.max(values[truth]) - values[truth, choice.policy],
                variance=agent.models.variances[choice.policy],
                grid_covers=choice.grid_set[truth],
                extra_covers=choice.extra_set[truth],
                grid_size=jnp.sum(choice.grid_set),
                both_size=jnp.sum(choice.grid_set & choice.extra_set),
                empty=choice.empty,
            )
            return agent.observe(state, choice.policy, looks, states), outcome

        return jax.lax.scan(episode, agent.init(init_key), jnp.arange(episodes))[1]

    over_seeds = jax.vmap(one, in_axes=(None, 0))
    return eqx.filter_vmap(over_seeds, in_axes=(eqx.if_array(0), None))(agents, keys)
