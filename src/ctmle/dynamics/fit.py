"""Fitting what we believe to all that we saw, leaning towards good news (steps 1 to 4 of "Implementation Details")."""

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ctmle.data.dataset import Dataset, Transitions, sample_transitions
from ctmle.dynamics.descent import Descent
from ctmle.dynamics.loop import Chunk, Span, Turn, loop, where_first
from ctmle.dynamics.model import Dynamics, without_scales
from ctmle.dynamics.objectives import Objective
from ctmle.dynamics.spread import compiled_over_devices, norm_and_means
from ctmle.dynamics.transition import TransitionLaw, closed_loop
from ctmle.envs.base import Spec

ControlKind = Literal["closed-loop", "hold"]
Advantage = Callable[[Transitions], Float[Array, "groups samples"]]

METRICS: tuple[str, ...] = ("dynamics_loss", "planning_loss", "dynamics_gradient", "optimism_weight")

SCALE_MEMORY = 0.95
"""Decay of the running scales that kappa_n is the ratio of."""


class Fit(eqx.Module):
    """How to fit: parts and numbers, fixed over a run."""

    law: TransitionLaw
    objective: Objective
    control: ControlKind = eqx.field(static=True)
    chained: bool = eqx.field(static=True)
    subsequences: int = eqx.field(static=True)
    length: int = eqx.field(static=True)
    diffusion_rate: float = eqx.field(static=True)
    descent: Descent

    def init(self, ensemble: Dynamics) -> "Belief":
        zero = jnp.zeros(())
        return Belief(ensemble, self.descent.init(ensemble), zero, zero)


class Belief(eqx.Module):
    """The ensemble with its optimiser and the running scales of the two losses."""

    ensemble: Dynamics
    optimiser: Any
    fit_scale: Float[Array, ""]
    planning_scale: Float[Array, ""]


def sample_losses(
    fit: Fit, spec: Spec, ensemble: Dynamics, batch: Transitions, key: PRNGKeyArray
) -> tuple[Float[Array, "members groups samples"], Float[Array, "members groups samples"]]:
    """The objective and the log transition density of every sample under every member."""

    def held(t: Array, y: Array) -> Array:
        repeats = y.shape[-2] // batch.u.shape[-2]
        return jnp.repeat(batch.u, repeats, axis=-2)

    control = held if fit.control == "hold" else closed_loop(spec, batch.policies)

    def member(dynamics: Dynamics) -> tuple[Array, Array]:
        law = fit.law(dynamics, control, batch.t, batch.y, batch.gap)
        residual = spec.observation.residual(batch.y_next, law.mean)
        return fit.objective(law, residual, batch.gap, key), law.log_prob(residual)

    return eqx.filter_vmap(member)(ensemble)


def fit_update(
    fit: Fit,
    spec: Spec,
    data: Dataset,
    advantage: Advantage | None,
    optimism: Float[Array, ""],
    belief: Belief,
    turn: Turn,
) -> tuple[Belief, dict[str, Array], Float[Array, " observed"]]:
    """One combined model update: theta <- theta - alpha (grad J - eta' grad E[V]).

    `optimism` is the wanted size of the planning term as a share of the fitting term; eta' follows from it and from
    the running scales of the two, so that the ratio stays put while the losses move.
    """
    batch_key, objective_key = jax.random.split(turn.key)
    batch = sample_transitions(data, batch_key, subsequences=fit.subsequences, length=fit.length, chained=fit.chained)
    bonus = jnp.zeros(batch.gap.shape) if advantage is None else jax.lax.stop_gradient(advantage(batch))
    known = belief.planning_scale > 0
    weight = jnp.where(known, optimism * belief.fit_scale / jnp.where(known, belief.planning_scale, 1.0), 0.0)

    def loss(ensemble: Dynamics) -> tuple[Array, tuple[Array, ...]]:
        objective, log_prob = sample_losses(fit, spec, ensemble, batch, objective_key)
        planning = bonus * log_prob
        sizes = [jnp.mean(values, axis=(1, 2)) for values in (objective, planning, jnp.abs(planning))]
        bad = jnp.sum(1.0 - jnp.isfinite(objective), axis=0)  # a sum, which devices exchange together with the means
        return jnp.sum(sizes[0] - weight * sizes[1]), (*sizes, bad)

    (_, (*sizes, bad)), gradient = eqx.filter_value_and_grad(loss, has_aux=True)(belief.ensemble)
    norm, fitting, planning, planning_size = norm_and_means(gradient, *sizes)
    updates, optimiser = fit.descent(belief.ensemble, gradient, norm, belief.optimiser, turn)
    updates = dataclasses.replace(without_scales(updates), log_scale=fit.diffusion_rate * updates.log_scale)

    def running(old: Array, new: Array) -> Array:
        return jnp.where(old > 0, SCALE_MEMORY * old + (1 - SCALE_MEMORY) * new, new)

    belief = Belief(
        ensemble=eqx.apply_updates(belief.ensemble, updates),
        optimiser=optimiser,
        fit_scale=running(belief.fit_scale, jnp.abs(fitting)),
        planning_scale=running(belief.planning_scale, planning_size),
    )
    measured = (fitting, -planning, norm, weight)
    return belief, dict(zip(METRICS, measured, strict=True)), where_first(bad > 0, batch.y)


@compiled_over_devices
def fit_updates(
    fit: Fit,
    spec: Spec,
    data: Dataset,
    advantage: Advantage | None,
    optimism: Float[Array, ""],
    belief: Belief,
    span: Span,
) -> Chunk[Belief]:
    """All updates of a span in one compiled loop; metrics are their means."""

    def update(belief: Belief, turn: Turn) -> tuple[Belief, dict[str, Array], Array]:
        return fit_update(fit, spec, data, advantage, optimism, belief, turn)

    return loop(update, belief, METRICS, span, spec.observation.size)
