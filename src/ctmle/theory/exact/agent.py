"""Exact CT-MLE: the paper's Algorithm 1 with the random looks of its Algorithm 2, by enumeration of a finite class."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ctmle.schedules.base import Looks, Schedule
from ctmle.theory.classes import FiniteClass
from ctmle.theory.confidence import confidence_set

TIE = 1e-9
"""Promises that differ by less are the same promise up to rounding."""


class ExactState(eqx.Module):
    """Log-likelihoods of all models, on grid looks and on random looks, each less its maximum; and the next key."""

    grid: Float[Array, " models"]
    extra: Float[Array, " models"]
    key: PRNGKeyArray


class Choice(eqx.Module):
    """(u_n, f_n, g_n) and the sets that it was chosen from."""

    policy: Int[Array, ""]
    model: Int[Array, ""]
    grid_set: Bool[Array, " models"]
    """P_n"""
    extra_set: Bool[Array, " models"]
    """hat-P_n; all models where there are no random looks"""
    empty: Bool[Array, ""]
    """The two sets had no model in common, and the most likely one was taken instead."""


class ExactCTMLE(eqx.Module):
    """Optimism over a likelihood confidence set, exactly.

    `chained` scores grid look to random look to grid look in one likelihood and keeps one set, instead of the paper's
    two likelihoods and two sets.
    """

    models: FiniteClass
    beta: Float[Array, ""]
    chained: bool = eqx.field(static=True, default=False)

    def init(self, key: PRNGKeyArray) -> ExactState:
        nothing = jnp.zeros(self.models.models, self.models.values.dtype)
        return ExactState(nothing, nothing, key)

    def propose(self, state: ExactState, schedule: Schedule) -> tuple[ExactState, Choice, Looks]:
        """argmax of R_{f,g}(u) over policies and models in both sets (line 5 of alg:alg1).

        Ties between policies are broken at random; which of several equal models makes the promise does not matter.
        """
        tie_key, look_key, key = jax.random.split(state.key, 3)
        grid_set, extra_set = confidence_set(state.grid, self.beta), confidence_set(state.extra, self.beta)
        empty = ~jnp.any(grid_set & extra_set)
        likeliest = jnp.arange(self.models.models) == jnp.argmax(state.grid + state.extra)
        allowed = jnp.where(empty, likeliest, grid_set & extra_set)
        promises = jnp.where(allowed[:, None], self.models.values, -jnp.inf)
        policy = _best(tie_key, jnp.max(promises, axis=0))
        choice = Choice(policy, jnp.argmax(promises[:, policy]), grid_set, extra_set, empty)
        return ExactState(state.grid, state.extra, key), choice, schedule.looks(look_key, self.models.horizon)

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


def _best(key: PRNGKeyArray, promises: Float[Array, " policies"]) -> Int[Array, ""]:
    """A uniformly random one of the largest."""
    tied = promises >= jnp.max(promises) - TIE
    return jnp.argmax(jnp.where(tied, jax.random.uniform(key, promises.shape), -1.0))
