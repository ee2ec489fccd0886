"""Fit an ensemble of SDEs to all looks, with optimism (steps 1 to 4 of "Implementation Details")."""

from dataclasses import dataclass
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from ctmle.data.batches import sample_transitions
from ctmle.envs.base import Spec
from ctmle.models.background import background, spread_of
from ctmle.models.bridge import Bridge
from ctmle.models.laws import Gap, Law, is_long
from ctmle.models.model import SDE, Ensemble, Model, at_rates, trained_part
from ctmle.models.networks import DiagonalNetwork
from ctmle.models.objectives import NegativeLogLikelihood, Objective
from ctmle.models.optimism import Optimism, advantage
from ctmle.models.world import Context, Learner
from ctmle.settings import Count, NonNegative, Positive, Share, option
from ctmle.training.adam import Adam
from ctmle.training.devices import member_means, member_norms
from ctmle.training.updates import Stage, Step, Update, where_first

FIT = Stage("dynamics", 0, stream=4)


class SDEFit(eqx.Module):
    """The ensemble with its optimiser."""

    ensemble: Ensemble
    optimiser: Any


@dataclass(frozen=True)
class SDELearner(Learner):
    """Maximises the likelihood of pairs of looks, and favours models in which the policy does well."""

    members: Count = option(10, "ensemble")
    """Members of the dynamics ensemble."""
    updates: Count = option(500, "dynamics_updates")
    """[N_dyn] Dynamics updates per episode."""
    rate: Positive = option(2e-3, "dynamics_rate")
    """[alpha_model] Learning rate of the drift at the start of each dynamics stage."""
    final_rate: Share = option(0.1, "dynamics_final_rate")
    """Rate at the end of the stage as a share of the one at its start (cosine in between)."""
    weight_decay: NonNegative = 1e-4
    """Decoupled weight decay of AdamW."""
    clip: Positive = option(30.0, "dynamics_clip")
    """Largest norm of a member's gradient."""
    batch: Count = option(5, "dynamics_batch")
    """[B_dyn] Subsequences per dynamics update."""
    length: Count = option(5, "dynamics_length")
    """[H_dyn] Gaps in each subsequence."""
    chained: Literal["never", "long-gaps", "always"] = "long-gaps"
    """With random looks, score grid look to random look to grid look instead of the paper's two likelihoods: in gaps
    above 1/8 s, where half the gap is much easier to fit than the whole one, or always, or never."""
    control: Literal["closed-loop", "hold"] = "closed-loop"
    """Control during a gap in the likelihood: the policy that acted, or its value at the gap's start (appendix, 2b)."""
    model: Model = option(DiagonalNetwork(), "family")
    """Family of SDEs that is fitted."""
    law: Law = Bridge()
    """Density of a transition: linearised moments; the same along the path to the observed end, for gaps above 1/8 s
    (bridge); or a covariance of g^2 * gap (euler; appendix, 2c)."""
    objective: Objective = NegativeLogLikelihood()
    """Fit by exact negative log-likelihood, or by sliced score matching as the paper does."""
    optimism: Optimism | None = Optimism()
    """Favour models in which the policy does well."""

    metrics = ("dynamics_loss", "planning_loss", "tail_share", "dynamics_gradient", "optimism_weight")

    def init(self, spec: Spec, key: PRNGKeyArray) -> SDEFit:
        ensemble = self.model.init(spec, key, self.members)
        return SDEFit(ensemble, self.adam.init(trained_part(self.model, ensemble)[0]))

    def stages(self, episode: int) -> tuple[Stage, ...]:
        return (Stage(FIT.name, self.updates, FIT.stream),)

    def begin(self, state: SDEFit, context: Context, episode: int) -> SDEFit:
        if episode > 1:
            return state
        return SDEFit(self.model.measure(state.ensemble, context.spec, context.data), state.optimiser)

    def prepare(self, stage: str, context: Context) -> tuple[Context, Array]:
        return context, spread_of(context.spec, context.data)

    def update(self, stage: str, state: SDEFit, inputs: tuple[Context, Array], step: Step) -> Update[SDEFit]:
        """Take one combined step theta <- theta - alpha (grad J - eta' grad E[V])."""
        context, spread = inputs
        spec = context.spec
        batch_key, objective_key = jax.random.split(step.key)
        chained = self.chained == "always" or (self.chained == "long-gaps" and is_long(context.longest_gap))
        batch = sample_transitions(
            context.data, batch_key, subsequences=self.batch, length=self.length, chained=chained
        )
        control = batch.held if self.control == "hold" else batch.drives.control(spec)
        gap = Gap(
            control,
            batch.t,
            batch.y,
            batch.gap,
            context.longest_gap,
            end=batch.y_next,
            observation=spec.observation,
        )
        unexplained = background(spec, spread, batch, jnp.minimum(1.0, 2.0 * step.index / self.updates))
        bonus, lean, weight = jnp.zeros(batch.gap.shape), jnp.zeros(batch.gap.shape), jnp.zeros(())
        if self.optimism is not None:
            bonus = advantage(context.world.reward, context.values, batch)
            lean, weight = self.optimism.lean(bonus, context.episode)

        def member_losses(sde: SDE) -> tuple[Array, ...]:
            law, residual = self.law.seen(sde, gap, blind=self.objective.blind)
            objective, log_prob = self.objective(law, residual, batch.gap, objective_key), law.log_prob(residual)
            objective, tail = self.objective.bounded(objective, unexplained)
            # A look that the tail explains neither attracts the model nor repels it, with optimism or without.
            leverage = jax.lax.stop_gradient((1.0 - tail) * self.objective.leverage(law, batch.gap))
            return objective, objective - lean * leverage * log_prob, bonus * (1.0 - tail) * log_prob, tail

        def loss(trained: Ensemble) -> tuple[Array, tuple[Array, ...]]:
            ensemble = eqx.combine(trained, fixed)
            objective, combined, planning, tail = eqx.filter_vmap(member_losses)(ensemble.stacked)
            sizes = [jnp.mean(values, axis=(1, 2)) for values in (objective, planning, tail)]
            bad = jnp.sum(1.0 - jnp.isfinite(combined), axis=0)  # a sum, which devices exchange along with the means
            return jnp.sum(jnp.mean(combined, axis=(1, 2))), (*sizes, bad)

        trained, fixed = trained_part(self.model, state.ensemble)
        (_, (*sizes, bad)), gradient = eqx.filter_value_and_grad(loss, has_aux=True)(trained)
        norms = member_norms(gradient)
        norm, fitting, planning, tail = member_means(norms, *sizes)
        updates, optimiser = self.adam(trained, gradient, norms, state.optimiser, step)
        trained = eqx.apply_updates(trained, at_rates(self.model, state.ensemble, updates))
        measured = dict(zip(self.metrics, (fitting, -planning, tail, norm, weight), strict=True))
        return SDEFit(eqx.combine(trained, fixed), optimiser), measured, where_first(bad > 0, batch.y)

    def sde(self, state: SDEFit) -> Ensemble:
        return state.ensemble

    def constants(self, episode: int) -> dict[str, float]:
        return {} if self.optimism is None else {"eta": self.optimism.eta(episode)}

    @property
    def adam(self) -> Adam:
        return Adam(self.updates, self.rate, self.final_rate, clip=self.clip, weight_decay=self.weight_decay)
