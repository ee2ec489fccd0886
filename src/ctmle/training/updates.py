"""Gradient updates: a trainer says what one is, and one compiled loop runs many of them."""

import zlib
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ctmle.settings import Part
from ctmle.training.devices import compiled_over_devices
from ctmle.training.failures import SMALLER, warn_or_give_up

ALL_FINITE = -1
"""The culprit of a loop that met no NaN or inf."""

State = TypeVar("State")
Update = tuple[State, dict[str, Array], Float[Array, " observed"]]


class Step(eqx.Module):
    """One update of a stage: its index, the factor on its learning rates, and its random key."""

    index: Int[Array, ""]
    pace: Float[Array, ""]
    key: PRNGKeyArray


class Span(eqx.Module):
    """Updates `first` to `first + count - 1` of a stage. Each has its own key, however they are grouped."""

    first: Int[Array, ""]
    count: Int[Array, ""]
    pace: Float[Array, ""]
    key: PRNGKeyArray

    @classmethod
    def of(cls, first: Any, count: Any, key: PRNGKeyArray, retries: int = 0) -> "Span":
        """A retry has smaller rates and draws anew."""
        key = key if retries == 0 else jax.random.fold_in(key, retries)
        return cls(jnp.asarray(first, jnp.int32), jnp.asarray(count, jnp.int32), jnp.asarray(SMALLER**retries), key)

    def step(self, index: Int[Array, ""]) -> Step:
        return Step(index, self.pace, jax.random.fold_in(self.key, index))


@dataclass(frozen=True)
class Stage:
    """A named run of updates within an episode, with a random stream of its own."""

    name: str
    updates: int
    stream: int
    optional: bool = False
    """Left out if its part has had enough."""

    @staticmethod
    def named(name: str, updates: int) -> "Stage":
        """A stage whose stream follows from its name, so that no table of streams has to be edited."""
        return Stage(name, updates, zlib.crc32(name.encode()) & 0x7FFFFFFF)


class Trainer(Part):
    """Something with a state that gradient updates improve. Its methods are pure but for `begin` and `finish`.

    An update uses the trainer's own numbers of updates, which are static; `Stage.updates` is for Python only.
    """

    metrics: ClassVar[tuple[str, ...]] = ()
    """Names of what an update measures, in the order in which they are checked for NaN and inf."""

    @abstractmethod
    def init(self, spec: Any, key: PRNGKeyArray) -> Any:
        """Return the state before any data."""

    def stages(self, episode: int) -> tuple[Stage, ...]:
        """List the stages of an episode."""
        return ()

    def begin(self, state: Any, context: Any, episode: int) -> Any:
        """Prepare for an episode once its data is complete: measure scales, filter, solve in closed form."""
        return state

    def finish(self, state: Any, context: Any) -> Any:
        """Take stock after the last update of a stage."""
        return state

    def has_enough(self, state: Any) -> bool:
        """Tell whether the optional stages that are left may be left out."""
        return False

    def prepare(self, stage: str, context: Any) -> Any:
        """Compute, inside the compiled call and once per call, what its updates share."""
        return context

    def update(self, stage: str, state: Any, inputs: Any, step: Step) -> Update[Any]:
        """Return the state after one update, its metrics, and the observed state to name if one is NaN or inf."""
        raise AssertionError(f"{type(self).__name__} has no stage {stage}")


class Outcome(eqx.Module, Generic[State]):
    """Result of a loop: the new state and the mean of each metric, if all numbers were finite.

    Otherwise `culprit` is the index of the first metric that was NaN or inf (one past the last: a parameter), at update
    `index`, and `evidence` the observed state that it came from (NaN if there is none to name).
    """

    state: State
    metrics: dict[str, Float[Array, ""]]
    index: Int[Array, ""]
    culprit: Int[Array, ""]
    evidence: Float[Array, " observed"]


def loop_updates(trainer: Trainer, stage: str, context: Any, state: State, span: Span) -> Outcome[State]:
    """Run the updates of a span, whatever their number, in one loop that stops at the first NaN or inf.

    `context` is whatever the trainer learns from; its `observed` is the size of the states that evidence consists of.
    The state of a loop that stopped is spoilt: the caller keeps the one that went in. (Keeping the last good one here
    would copy every parameter at every update.)
    """
    inputs, names = trainer.prepare(stage, context), trainer.metrics
    arrays, static = eqx.partition(state, eqx.is_array)
    end = span.first + span.count

    def going(carry: tuple[Any, ...]) -> Array:
        index, culprit = carry[0], carry[3]
        return (index < end) & (culprit == ALL_FINITE)

    def body(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        index, arrays, sums, _, _ = carry
        state, found, evidence = trainer.update(stage, eqx.combine(arrays, static), inputs, span.step(index))
        finite = jnp.isfinite(jnp.stack([found[name] for name in names]))
        culprit = jnp.where(jnp.all(finite), ALL_FINITE, jnp.argmin(finite)).astype(jnp.int32)
        sums = {name: sums[name] + found[name] for name in names}
        return index + (culprit == ALL_FINITE), eqx.filter(state, eqx.is_array), sums, culprit, evidence

    start = (
        span.first,
        arrays,
        {name: jnp.zeros(()) for name in names},
        jnp.asarray(ALL_FINITE, jnp.int32),
        jnp.full(context.observed, jnp.nan),
    )
    index, arrays, sums, culprit, evidence = jax.lax.while_loop(going, body, start)
    # An update's parameters are judged by the metrics of the next one; those of the last one are judged here.
    numbers = [leaf for leaf in jax.tree.leaves(arrays) if jnp.issubdtype(leaf.dtype, jnp.inexact)]
    whole = jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in numbers]))
    culprit = jnp.where((culprit == ALL_FINITE) & ~whole, len(names), culprit)
    means = {name: value / span.count for name, value in sums.items()}
    return Outcome(eqx.combine(arrays, static), means, index, culprit, evidence)


run_updates = compiled_over_devices(loop_updates)
"""`loop_updates`, compiled once per trainer, stage and shapes, and spread over devices."""


def failed(outcome: Outcome[Any], trainer: Trainer, stage: str, episode: int, retries: int) -> bool:
    """Tell whether a loop met NaN or inf. Warns if it may be retried, raises NotFinite if not."""
    if int(outcome.culprit) == ALL_FINITE:
        return False
    quantity = (*trainer.metrics, "a parameter")[int(outcome.culprit)]
    where = f"in the {stage} stage of episode {episode}, update {int(outcome.index)}"
    warn_or_give_up(quantity, where, np.asarray(outcome.evidence, float), retries)
    return True


def where_first(bad: Array, states: Float[Array, "... observed"]) -> Float[Array, " observed"]:
    """Return the state at the first place that is `bad`, as evidence; NaN if none is."""
    bad = jnp.broadcast_to(bad, states.shape[:-1]).reshape(-1)
    found = states.reshape(-1, states.shape[-1])[jnp.argmax(bad)]
    return jnp.where(jnp.any(bad), found, jnp.nan)
