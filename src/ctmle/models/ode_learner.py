"""Fit an ensemble of ODEs by the Gaussian likelihood of its multi-step predictions (ENODE)."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ctmle.data.batches import sample_sequences
from ctmle.envs.base import Spec
from ctmle.models.integrate import SolverKind
from ctmle.models.laws import parts_of
from ctmle.models.model import Ensemble, Model, at_rates, trained_part
from ctmle.models.networks import DriftNetwork
from ctmle.models.prediction import OdeControlKind, match_slopes, predict_looks
from ctmle.models.world import Context, Learner
from ctmle.settings import Count, CountFromZero, NonNegative, Positive, Share, option
from ctmle.training.adam import Adam
from ctmle.training.devices import member_means, member_norms
from ctmle.training.updates import Stage, Step, Update, where_first

MATCHING, FIT = Stage("matching", 0, stream=6), Stage("dynamics", 0, stream=4)

Noise = Float[Array, "members observed"]


class ODEFit(eqx.Module):
    """The ensemble, the level of each member's observation noise, and their optimiser."""

    ensemble: Ensemble
    log_noise: Noise
    optimiser: Any


@dataclass(frozen=True)
class ODELearner(Learner):
    """Matches slopes once, then maximises the likelihood of multi-step predictions."""

    members: Count = option(5, "ensemble")
    """Members of the dynamics ensemble."""
    updates: Count = option(1250, "dynamics_updates")
    """Dynamics updates per round."""
    rate: Positive = option(1e-3, "dynamics_rate")
    """Learning rate of the drift at the start of each dynamics stage."""
    final_rate: Share = option(0.1, "dynamics_final_rate")
    """Rate at the end of the stage as a share of the one at its start (cosine in between)."""
    weight_decay: NonNegative = 1e-4
    """Decoupled weight decay of AdamW."""
    batch: Count = option(20, "dynamics_batch")
    """Subsequences per dynamics update."""
    length: Count = option(5, "dynamics_length")
    """Looks in each subsequence: a prediction starts at the first, the others are predicted."""
    matching_updates: CountFromZero = 500
    """Updates by gradient matching, once, before the first round: the drift is regressed on slopes between looks."""
    matching_batch: Count = 64
    """Subsequences per update by gradient matching."""
    matching_rate: Positive = 5e-3
    """Learning rate of gradient matching at its start."""
    control: OdeControlKind = "interpolated"
    """Control between looks in the likelihood: a smooth curve through the recorded ones, or the policy that acted."""
    noise: Literal["learned", "fixed"] = "learned"
    """Whether the observation noise of the likelihood is learned, per coordinate and member."""
    noise_level: Positive = 0.37
    """Observation noise, or its initial value."""
    noise_floor: Positive = 0.01
    """Smallest observation noise that can be learned."""
    noise_rate: Positive = 10.0
    """How many times faster the observation noise learns than the drift."""
    solver: SolverKind = "rk3"
    """Integrator of the drift between looks: steps of order 3, 4 or 5 (dopri5 is Dormand-Prince, the papers'), or
    Dormand-Prince with error control (adaptive: for stiff systems; several times slower)."""
    longest_step: Positive = 0.125
    """Longest step of the integrator in seconds; the adaptive one chooses its own."""
    model: Model = option(DriftNetwork(), "family")
    """Family of ODEs that is fitted."""

    metrics = ("dynamics_loss", "dynamics_gradient", "prediction_error", "observation_noise")

    def check(self) -> None:
        if self.length < 2:
            raise ValueError(f"dynamics_length {self.length} leaves no look to predict: choose at least 2 looks")
        if self.noise_floor >= self.noise_level:
            raise ValueError(f"noise_floor {self.noise_floor:g} must be below noise_level {self.noise_level:g}")

    def init(self, spec: Spec, key: PRNGKeyArray) -> ODEFit:
        ensemble = self.model.init(spec, key, self.members)
        log_noise = jnp.full((self.members, spec.observation.size), np.log(self.noise_level - self.noise_floor))
        trained = trained_part(self.model, ensemble)[0]
        return ODEFit(ensemble, log_noise, self._adam(FIT.name).init((trained, log_noise)))

    def stages(self, episode: int) -> tuple[Stage, ...]:
        fit = Stage(FIT.name, self.updates, FIT.stream)
        if episode > 1 or self.matching_updates == 0:
            return (fit,)
        return (Stage(MATCHING.name, self.matching_updates, MATCHING.stream), fit)

    def begin(self, state: ODEFit, context: Context, episode: int) -> ODEFit:
        if episode > 1:
            return state
        ensemble = self.model.measure(state.ensemble, context.spec, context.data)
        return ODEFit(ensemble, state.log_noise, state.optimiser)

    def update(self, stage: str, state: ODEFit, inputs: Context, step: Step) -> Update[ODEFit]:
        """Take one step up the likelihood."""
        matching = stage == MATCHING.name
        count = self.matching_batch if matching else self.batch
        batch = sample_sequences(inputs.data, step.key, count=count, length=self.length)
        segments = parts_of(inputs.longest_gap, self.longest_step)
        how = {"segments": segments, "solver": self.solver, "control": self.control}
        prediction = match_slopes if matching else partial(predict_looks, **how)
        counted = jnp.where(batch.real[:, 1:], 1.0, 0.0)
        trained, fixed = trained_part(self.model, state.ensemble)

        def average(values: Float[Array, "members groups predicted"]) -> Float[Array, " members"]:
            """Average over the looks that are there."""
            return jnp.sum(counted * values, axis=(1, 2)) / jnp.sum(counted)

        def loss(parameters: tuple[Ensemble, Noise]) -> tuple[Array, tuple[Array, Array]]:
            trained, log_noise = parameters
            ensemble = eqx.combine(trained, fixed)
            losses, residuals = eqx.filter_vmap(
                lambda sde, log_noise: self.losses(prediction(inputs.spec, sde, batch), log_noise)
            )(ensemble.stacked, log_noise)
            return jnp.sum(average(losses)), (losses, residuals)

        parameters = (trained, state.log_noise)
        (_, (losses, residuals)), gradient = eqx.filter_value_and_grad(loss, has_aux=True)(parameters)
        # In units in which the first data's slopes have size 1.
        scaled = jnp.square(residuals / state.ensemble.stacked.drift_scale[:, None, None])
        norms = member_norms(gradient)
        norm, fitting, missed = member_means(norms, average(losses), average(jnp.mean(scaled, axis=-1)))
        (drift_updates, noise_updates), optimiser = self._adam(stage)(
            parameters, gradient, norms, state.optimiser, step
        )
        log_noise = state.log_noise + (self.noise_rate if self.noise == "learned" else 0.0) * noise_updates
        noise = jnp.mean(self.noise_floor + jnp.exp(log_noise))
        measured = dict(zip(self.metrics, (fitting, norm, jnp.sqrt(missed), noise), strict=True))
        bad = jnp.sum(1.0 - jnp.isfinite(losses), axis=0) > 0
        drift_updates = at_rates(self.model, state.ensemble, drift_updates)
        ensemble = eqx.combine(eqx.apply_updates(trained, drift_updates), fixed)
        return ODEFit(ensemble, log_noise, optimiser), measured, where_first(bad, batch.y[:, :-1])

    def losses(
        self, residual: Float[Array, "groups predicted observed"], log_noise: Float[Array, " observed"]
    ) -> tuple[Float[Array, "groups predicted"], Float[Array, "groups predicted observed"]]:
        """Return the negative log-likelihood of every predicted look under a member, and its residual."""
        noise = self.noise_floor + jnp.exp(log_noise)
        loss = 0.5 * (residual / noise) ** 2 + jnp.log(noise) + 0.5 * np.log(2 * np.pi)
        return jnp.sum(loss, axis=-1), residual

    def sde(self, state: ODEFit) -> Ensemble:
        return state.ensemble

    def _adam(self, stage: str) -> Adam:
        matching = stage == MATCHING.name
        updates = self.matching_updates if matching else self.updates
        rate = self.matching_rate if matching else self.rate
        return Adam(updates, rate, self.final_rate, weight_decay=self.weight_decay)
