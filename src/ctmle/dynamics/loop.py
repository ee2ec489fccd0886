"""Many updates in one compiled loop, which stops at the first number that is not one."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

NO_CULPRIT = -1


class Turn(eqx.Module):
    """One update of a phase: its place in it, what its rates are multiplied by, and its randomness."""

    step: Int[Array, ""]
    pace: Float[Array, ""]
    key: PRNGKeyArray


class Span(eqx.Module):
    """Updates `first` to `first + count - 1` of a phase. Each has randomness of its own, however they are grouped."""

    first: Int[Array, ""]
    count: Int[Array, ""]
    pace: Float[Array, ""]
    key: PRNGKeyArray

    @classmethod
    def of(cls, first: Any, count: Any, key: PRNGKeyArray, pace: Any = 1.0) -> "Span":
        return cls(jnp.asarray(first, jnp.int32), jnp.asarray(count, jnp.int32), jnp.asarray(pace), key)

    def turn(self, step: Int[Array, ""]) -> Turn:
        return Turn(step, self.pace, jax.random.fold_in(self.key, step))


State = TypeVar("State")
Update = Callable[[State, Turn], tuple[State, dict[str, Array], Float[Array, " observed"]]]


class Chunk(eqx.Module, Generic[State]):
    """What a loop came to: the new state and the mean of each metric, if there is no culprit.

    Otherwise `culprit` is the place of the first metric that was not finite (one past the last: a number in the
    state), at update `step`, and `evidence` the observed state that it came from (not finite itself if there is none
    to point at).
    """

    state: State
    metrics: dict[str, Float[Array, ""]]
    step: Int[Array, ""]
    culprit: Int[Array, ""]
    evidence: Float[Array, " observed"]


def loop(update: Update[State], state: State, metrics: tuple[str, ...], span: Span, observed: int) -> Chunk[State]:
    """The updates of a span, whatever their number, by one program. `metrics` are looked at in their order.

    A state with a culprit is spoilt: whoever called goes back to the one that went in. (To keep the last good one in
    here would copy every parameter at every update.)
    """
    arrays, static = eqx.partition(state, eqx.is_array)
    end = span.first + span.count

    def going(carry: tuple[Any, ...]) -> Array:
        step, culprit = carry[0], carry[3]
        return (step < end) & (culprit == NO_CULPRIT)

    def body(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        step, arrays, sums, _, _ = carry
        state, found, evidence = update(eqx.combine(arrays, static), span.turn(step))
        finite = jnp.isfinite(jnp.stack([found[name] for name in metrics]))
        culprit = jnp.where(jnp.all(finite), NO_CULPRIT, jnp.argmin(finite)).astype(jnp.int32)
        sums = {name: sums[name] + found[name] for name in metrics}
        return step + (culprit == NO_CULPRIT), eqx.filter(state, eqx.is_array), sums, culprit, evidence

    start = (
        span.first,
        arrays,
        {name: jnp.zeros(()) for name in metrics},
        jnp.asarray(NO_CULPRIT, jnp.int32),
        jnp.full(observed, jnp.nan),
    )
    step, arrays, sums, culprit, evidence = jax.lax.while_loop(going, body, start)
    # What an update writes, the next one's metrics judge; the last one's is judged here.
    numbers = [leaf for leaf in jax.tree.leaves(arrays) if jnp.issubdtype(leaf.dtype, jnp.inexact)]
    whole = jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in numbers]))
    culprit = jnp.where((culprit == NO_CULPRIT) & ~whole, len(metrics), culprit)
    means = {name: value / span.count for name, value in sums.items()}
    return Chunk(eqx.combine(arrays, static), means, step, culprit, evidence)


def where_first(bad: Array, states: Float[Array, "... observed"]) -> Float[Array, " observed"]:
    """The state at the first place that is `bad`, as evidence; not numbers if none is."""
    bad = jnp.broadcast_to(bad, states.shape[:-1]).reshape(-1)
    found = states.reshape(-1, states.shape[-1])[jnp.argmax(bad)]
    return jnp.where(jnp.any(bad), found, jnp.nan)
