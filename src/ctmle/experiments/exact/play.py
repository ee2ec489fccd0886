"""Exact CT-MLE against its own truth, many seeds and many instances in one compiled call."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray

from ctmle.agents.exact import ExactCTMLE, ExactState
from ctmle.schedules.base import Looks, Schedule
from ctmle.theory.classes import FiniteClass
from ctmle.theory.precision import in_double


class Play(eqx.Module):
    """What happened in each episode."""

    policy: Int[Array, "*batch episodes"]
    regret: Float[Array, "*batch episodes"]
    """R(u*) - R(u_n) under the truth."""
    variance: Float[Array, "*batch episodes"]
    """Var^{u_n} under the truth."""
    grid_covers: Bool[Array, "*batch episodes"]
    """The truth is in P_n."""
    extra_covers: Bool[Array, "*batch episodes"]
    """The truth is in hat-P_n."""
    grid_size: Int[Array, "*batch episodes"]
    both_size: Int[Array, "*batch episodes"]
    """Models in P_n, and in both sets."""
    empty: Bool[Array, "*batch episodes"]


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
            states = walk(agent.models, choice.policy, looks, jax.random.fold_in(world_key, n))
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


def walk(
    models: FiniteClass, policy: Int[Array, ""], looks: Looks, key: PRNGKeyArray
) -> Float[Array, "looks size"]:
    """States of the true system at the looks, each drawn exactly given the one before."""

    def step(x: Array, gap_and_key: tuple[Array, Array]) -> tuple[Array, Array]:
        gap, key = gap_and_key
        x = models.sample(key, policy, x, gap)
        return x, x

    gaps = jnp.diff(looks.times).astype(models.start.dtype)
    _, later = jax.lax.scan(step, models.start, (gaps, jax.random.split(key, gaps.shape[0])))
    return jnp.concatenate([models.start[None], later])
