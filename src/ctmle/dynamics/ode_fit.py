"""Fitting an ensemble of ODEs: the Gaussian likelihood of what it predicts of stretches of looks."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ctmle.data.dataset import Dataset
from ctmle.data.sequences import Sequences, sample_sequences
from ctmle.dynamics.descent import Descent
from ctmle.dynamics.loop import Chunk, Span, Turn, loop, where_first
from ctmle.dynamics.model import Dynamics, trained_part
from ctmle.dynamics.prediction import Prediction
from ctmle.dynamics.spread import compiled_over_devices, member_means, member_norms
from ctmle.envs.base import Spec

METRICS: tuple[str, ...] = ("dynamics_loss", "dynamics_gradient", "prediction_error", "observation_noise")

Model = tuple[Dynamics, Float[Array, "members observed"]]


class OdeBelief(eqx.Module):
    """The ensemble, the level of each member's observation noise, and their optimiser."""

    ensemble: Dynamics
    log_noise: Float[Array, "members observed"]
    optimiser: Any


class OdeFit(eqx.Module):
    """How to fit: parts and numbers, fixed over a phase. With a `noise_rate` of 0 the noise stays what it is."""

    prediction: Prediction
    subsequences: int = eqx.field(static=True)
    length: int = eqx.field(static=True)
    noise_rate: float = eqx.field(static=True)
    noise_floor: float = eqx.field(static=True)
    descent: Descent

    def init(self, ensemble: Dynamics, noise: float) -> OdeBelief:
        log_noise = jnp.full(ensemble.drift_scale.shape, np.log(noise - self.noise_floor))
        return OdeBelief(ensemble, log_noise, self.descent.init((trained_part(ensemble)[0], log_noise)))

    def losses(
        self, spec: Spec, model: Model, batch: Sequences
    ) -> tuple[Float[Array, "members groups predicted"], Float[Array, "members groups predicted observed"]]:
        """Negative log-likelihood of every look that is predicted, and its residual, under every member."""

        def member(dynamics: Dynamics, log_noise: Array) -> tuple[Array, Array]:
            residual = self.prediction(spec, dynamics, batch)
            noise = self.noise_floor + jnp.exp(log_noise)
            loss = 0.5 * (residual / noise) ** 2 + jnp.log(noise) + 0.5 * np.log(2 * np.pi)
            return jnp.sum(loss, axis=-1), residual

        return eqx.filter_vmap(member)(*model)


def ode_update(
    fit: OdeFit,
    spec: Spec,
    data: Dataset,
    belief: OdeBelief,
    turn: Turn,
) -> tuple[OdeBelief, dict[str, Array], Float[Array, " observed"]]:
    """One step up the likelihood."""
    batch = sample_sequences(data, turn.key, count=fit.subsequences, length=fit.length)
    counted = jnp.where(batch.real[:, 1:], 1.0, 0.0)
    trained, fixed = trained_part(belief.ensemble)
    model = (trained, belief.log_noise)

    def average(values: Float[Array, "members groups predicted"]) -> Float[Array, " members"]:
        """Over the looks that are there."""
        return jnp.sum(counted * values, axis=(1, 2)) / jnp.sum(counted)

    def loss(model: Model) -> tuple[Array, tuple[Array, Array]]:
        trained, log_noise = model
        losses, residuals = fit.losses(spec, (eqx.combine(trained, fixed), log_noise), batch)
        return jnp.sum(average(losses)), (losses, residuals)

    (_, (losses, residuals)), gradient = eqx.filter_value_and_grad(loss, has_aux=True)(model)
    # In the units in which the first data's slopes have size 1.
    scaled = jnp.square(residuals / belief.ensemble.drift_scale[:, None, None])
    norms = member_norms(gradient)
    norm, fitting, missed = member_means(norms, average(losses), average(jnp.mean(scaled, axis=-1)))
    (drift_updates, noise_updates), optimiser = fit.descent(model, gradient, norms, belief.optimiser, turn)
    ensemble = eqx.combine(eqx.apply_updates(trained, drift_updates), fixed)
    log_noise = belief.log_noise + fit.noise_rate * noise_updates
    noise = jnp.mean(fit.noise_floor + jnp.exp(log_noise))
    measured = (fitting, norm, jnp.sqrt(missed), noise)
    bad = jnp.sum(1.0 - jnp.isfinite(losses), axis=0) > 0
    return (
        OdeBelief(ensemble, log_noise, optimiser),
        dict(zip(METRICS, measured, strict=True)),
        where_first(bad, batch.y[:, :-1]),
    )


@compiled_over_devices
def ode_updates(
    fit: OdeFit,
    spec: Spec,
    data: Dataset,
    belief: OdeBelief,
    span: Span,
) -> Chunk[OdeBelief]:
    """All updates of a span in one compiled loop; metrics are their means."""

    def update(belief: OdeBelief, turn: Turn) -> tuple[OdeBelief, dict[str, Array], Array]:
        return ode_update(fit, spec, data, belief, turn)

    return loop(update, belief, METRICS, span, spec.observation.size)
