"""Exact CT-MLE: the paper's Algorithm 1 with the random looks of its Algorithm 2, by enumeration of a finite class."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray

from ctmle.schedules.base import Looks, Schedule
from ctmle.theory.exact.classes import FiniteClass, walk
from ctmle.training.double import in_double

TIE = 1e-9
"""Largest rounding error of a value: policies whose promised values differ by less are tied."""


class ExactState(eqx.Module):
    """Log-likelihoods of all models on grid looks and on random looks, each minus its maximum, and the next key."""

    grid: Float[Array, " models"]
    extra: Float[Array, " models"]
    key: PRNGKeyArray


class ExactChoice(eqx.Module):
    """Chosen (u_n, f_n, g_n) and the sets that it was chosen from."""

    policy: Int[Array, ""]
    model: Int[Array, ""]
    grid_set: Bool[Array, " models"]
    """P_n."""
    extra_set: Bool[Array, " models"]
    """hat-P_n; all models if there are no random looks."""
    empty: Bool[Array, ""]
    """True if the two sets had no model in common, so that the most likely model was used instead."""


class ExactCTMLE(eqx.Module):
    """Optimism over a likelihood confidence set, computed exactly.

    `chained` scores grid look to random look to grid look in one likelihood and keeps one set, instead of the paper's
    two likelihoods and two sets.
    """

    models: FiniteClass
    beta: Float[Array, ""]
    chained: bool = eqx.field(static=True, default=False)

    def init(self, key: PRNGKeyArray) -> ExactState:
        nothing = jnp.zeros(self.models.models, self.models.values.dtype)
        return ExactState(nothing, nothing, key)

    def propose(self, state: ExactState, schedule: Schedule) -> tuple[ExactState, ExactChoice, Looks]:
        """Maximise R_{f,g}(u) over policies and models in both sets (line 5 of alg:alg1).

        Ties between policies are broken at random. If several models promise the same value, any of them is returned.
        """
        tie_key, look_key, key = jax.random.split(state.key, 3)
        grid_set, extra_set = confidence_set(state.grid, self.beta), confidence_set(state.extra, self.beta)
        empty = ~jnp.any(grid_set & extra_set)
        likeliest = jnp.arange(self.models.models) == jnp.argmax(state.grid + state.extra)
        allowed = jnp.where(empty, likeliest, grid_set & extra_set)
        promises = jnp.where(allowed[:, None], self.models.values, -jnp.inf)
        best = jnp.max(promises, axis=0)
        tied = best >= jnp.max(best) - TIE
        policy = jnp.argmax(jnp.where(tied, jax.random.uniform(tie_key, best.shape), -1.0))
        choice = ExactChoice(policy, jnp.argmax(promises[:, policy]), grid_set, extra_set, empty)
        looks = schedule.looks(look_key, self.models.horizon)
        assert isinstance(looks, Looks)  # exact classes are played at given times
        return ExactState(state.grid, state.extra, key), choice, looks

    def observe(
        self, state: ExactState, policy: Int[Array, ""], looks: Looks, states: Float[Array, "looks size"]
    ) -> ExactState:
        """Add an episode's looks to the likelihoods."""
        times, grid, extra = looks.times.astype(states.dtype), state.grid, state.extra
        score = self.models.log_likelihoods
        if self.chained or not looks.random:
            grid = grid + score(policy, states[:-1], states[1:], jnp.diff(times))
        else:
            here, start = states[:-2:2], times[:-2:2]
            grid = grid + score(policy, here, states[2::2], times[2::2] - start)
            extra = extra + score(policy, here, states[1::2], times[1::2] - start)
        return ExactState(grid - jnp.max(grid), extra - jnp.max(extra), state.key)


def confidence_set(log_likelihoods: Float[Array, " models"], beta: Float[Array, ""]) -> Bool[Array, " models"]:
    """P_n (alg:alg1, alg:alg3): the models whose log-likelihood is within beta of the largest."""
    return log_likelihoods >= jnp.max(log_likelihoods) - beta


class Play(eqx.Module):
    """Record of an episode; `play` stacks it over [agents, seeds, episodes]."""

    policy: Int[Array, "*batch"]
    regret: Float[Array, "*batch"]
    """R(u*) - R(u_n) under the truth."""
    variance: Float[Array, "*batch"]
    """Var^{u_n} under the truth."""
    grid_covers: Bool[Array, "*batch"]
    """True if the truth is in P_n."""
    extra_covers: Bool[Array, "*batch"]
    """True if the truth is in hat-P_n."""
    grid_size: Int[Array, "*batch"]
    """Number of models in P_n."""
    both_size: Int[Array, "*batch"]
    """Number of models in both sets."""
    empty: Bool[Array, "*batch"]


@in_double
def stack(agents: list[ExactCTMLE]) -> ExactCTMLE:
    """Stack agents of equal shapes, so that one compiled call plays them all."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *agents)


@in_double
@eqx.filter_jit
def play(agents: ExactCTMLE, schedule: Schedule, episodes: int, keys: Key[Array, " seeds"]) -> Play:
    """Play every seed with every agent of a stack (`stack`); arrays have the shape [agents, seeds, episodes]."""

    def one(agent: ExactCTMLE, key: PRNGKeyArray) -> Play:
        init_key, world_key = jax.random.split(key)

        def episode(state: ExactState, n: Array) -> tuple[ExactState, Play]:
            state, choice, looks = agent.propose(state, schedule)
            states = walk(agent.models, choice.policy, looks.times, jax.random.fold_in(world_key, n))
            truth, values = agent.models.truth, agent.models.values
            record = Play(
                policy=choice.policy,
                regret=jnp.max(values[truth]) - values[truth, choice.policy],
                variance=agent.models.variances[choice.policy],
                grid_covers=choice.grid_set[truth],
                extra_covers=choice.extra_set[truth],
                grid_size=jnp.sum(choice.grid_set),
                both_size=jnp.sum(choice.grid_set & choice.extra_set),
                empty=choice.empty,
            )
            return agent.observe(state, choice.policy, looks, states), record

        return jax.lax.scan(episode, agent.init(init_key), jnp.arange(episodes))[1]

    over_seeds = jax.vmap(one, in_axes=(None, 0))
    return eqx.filter_vmap(over_seeds, in_axes=(eqx.if_array(0), None))(agents, keys)
