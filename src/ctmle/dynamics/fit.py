"""Fitting what we believe to all that we saw, leaning towards good news (steps 1 to 4 of "Implementation Details")."""

from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ctmle.data.dataset import Dataset, Transitions, sample_transitions
from ctmle.dynamics.descent import Descent
from ctmle.dynamics.loop import Chunk, Span, Turn, loop, where_first
from ctmle.dynamics.model import Dynamics, trained_part
from ctmle.dynamics.objectives import Objective
from ctmle.dynamics.spread import compiled_over_devices, member_means, member_norms
from ctmle.dynamics.transition import TransitionLaw, closed_loop
from ctmle.envs.base import Spec

ControlKind = Literal["closed-loop", "hold"]
Advantage = Callable[[Transitions], Float[Array, "groups samples"]]

METRICS: tuple[str, ...] = ("dynamics_loss", "planning_loss", "dynamics_gradient", "optimism_weight")

LARGEST_LEAN = 0.5
"""Optimism reweighs a sample by at most this share of its weight in the fit, so that no sample repels the model."""


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
        return Belief(ensemble, self.descent.init(trained_part(ensemble)[0]))


class Belief(eqx.Module):
    """The ensemble with its optimiser."""

    ensemble: Dynamics
    optimiser: Any


def sample_losses(
    fit: Fit, spec: Spec, ensemble: Dynamics, batch: Transitions, key: PRNGKeyArray
) -> tuple[Float[Array, "members groups samples"], ...]:
    """The objective of every sample under every member, the log transition density, and its leverage."""

    def held(t: Array, y: Array) -> Array:
        repeats = y.shape[-2] // batch.u.shape[-2]
        return jnp.repeat(batch.u, repeats, axis=-2)

    control = held if fit.control == "hold" else closed_loop(spec, batch.policies)

    def member(dynamics: Dynamics) -> tuple[Array, ...]:
        law = fit.law(dynamics, control, batch.t, batch.y, batch.gap)
        residual = spec.observation.residual(batch.y_next, law.mean)
        leverage = jax.lax.stop_gradient(fit.objective.leverage(law, batch.gap))
        return fit.objective(law, residual, batch.gap, key), law.log_prob(residual), leverage

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

    `optimism` is the wanted size of the planning term's gradient as a share of the fitting term's. Both are sums over
    the same samples, so the share is kept sample by sample: the advantage, in units of its mean size, says by which
    share a sample counts more or less, and the objective's `leverage` converts log-densities to its own scale.
    """
    batch_key, objective_key = jax.random.split(turn.key)
    batch = sample_transitions(data, batch_key, subsequences=fit.subsequences, length=fit.length, chained=fit.chained)
    bonus = jnp.zeros(batch.gap.shape) if advantage is None else jax.lax.stop_gradient(advantage(batch))
    weight = optimism / jnp.maximum(jnp.mean(jnp.abs(bonus)), 1e-6)
    lean = jnp.clip(weight * bonus, -LARGEST_LEAN, LARGEST_LEAN)
    trained, fixed = trained_part(belief.ensemble)

    def loss(trained: Dynamics) -> tuple[Array, tuple[Array, ...]]:
        ensemble = eqx.combine(trained, fixed)
        objective, log_prob, leverage = sample_losses(fit, spec, ensemble, batch, objective_key)
        sizes = [jnp.mean(values, axis=(1, 2)) for values in (objective, bonus * log_prob)]
        bad = jnp.sum(1.0 - jnp.isfinite(objective), axis=0)  # a sum, which devices exchange together with the means
        return jnp.sum(jnp.mean(objective - lean * leverage * log_prob, axis=(1, 2))), (*sizes, bad)

    (_, (*sizes, bad)), gradient = eqx.filter_value_and_grad(loss, has_aux=True)(trained)
    norms = member_norms(gradient)
    norm, fitting, planning = member_means(norms, *sizes)
    updates, optimiser = fit.descent(trained, gradient, norms, belief.optimiser, turn)
    updates = eqx.tree_at(lambda u: u.log_scale, updates, fit.diffusion_rate * updates.log_scale)
    belief = Belief(eqx.combine(eqx.apply_updates(trained, updates), fixed), optimiser)
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
