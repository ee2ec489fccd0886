"""Optimism: the planning term of Lagrangian CT-MLE (step 3 of "Implementation Details")."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ctmle.data.batches import Transitions
from ctmle.models.world import Values
from ctmle.settings import Part, Positive, option

TABLE_ETA_BASE = 4.0
"""eta_base in the paper's table: at this value the fitting term is `ratio` (10) times the planning term."""

LARGEST_LEAN = 0.5
"""Optimism reweighs a sample by at most this share of its weight in the fit, so that no sample repels the model."""


@dataclass(frozen=True)
class Optimism(Part):
    """Favours models in which the policy does well, by the advantage of each observed transition."""

    eta_base: Positive = 4.0
    """[eta_base] Base of the Lagrange multiplier eta_n = eta_base / n. Large: less optimism."""
    ratio: Positive = option(10.0, "optimism_ratio")
    """[10:1] Size of the fitting term over that of the planning term at eta_base = 4."""
    annealing: Literal["per-episode", "literal"] = option("per-episode", "eta")
    """Weight of the planning term over episodes: constant, because the fit is a mean over episodes (per-episode), or
    growing with n as in eta' = n / (eta_base kappa) (literal)."""

    def eta(self, episode: int) -> float:
        """Return the annealed multiplier eta_n = eta_base / n, for n = 1, 2, ..."""
        return self.eta_base / episode

    def share(self, episode: Int[Array, ""]) -> Float[Array, ""]:
        """Return the wanted size of the planning term's gradient as a share of the fitting term's.

        It is 0 in episode 1, whose critic is untrained. Later, alg:imp-friendly maximises R + eta_n * (sum over n
        episodes of log-likelihoods); per episode that is eta_n * n = eta_base of likelihood to one R, whatever n is. So
        the share is constant, which is the paper's "stable 10:1", and a large eta_base switches optimism off, as in its
        gap experiment. Under the literal reading it is n times as large: 10:1 in episode 1, 1:1 in episode 10.
        """
        grown = episode if self.annealing == "literal" else 1.0
        return jnp.where(episode > 1, grown * TABLE_ETA_BASE / (self.eta_base * self.ratio), 0.0)

    def lean(
        self, advantage: Float[Array, "groups samples"], episode: Int[Array, ""]
    ) -> tuple[Float[Array, "groups samples"], Float[Array, ""]]:
        """Return by which share each sample counts more or less, and the weight eta' of the advantage in it.

        Fitting and planning term are sums over the same samples, so the share is kept sample by sample.
        """
        weight = self.share(episode) / jnp.maximum(jnp.mean(jnp.abs(advantage)), 1e-6)
        return jnp.clip(weight * advantage, -LARGEST_LEAN, LARGEST_LEAN), weight


def advantage(reward: Callable[..., Array], values: Values, batch: Transitions) -> Float[Array, "groups samples"]:
    """Compute A = integral of b over the gap + exp(-gap / tau) V'(y_next) - V(y) (step 3a), without a gradient.

    V is the critic and V' its target; the integral is taken by the trapezoidal rule, as in the critic's own targets.
    """
    discount, end = jnp.exp(-batch.gap / values.discount_time), batch.t + batch.gap
    here, there = reward(batch.t, batch.y, batch.u), reward(end, batch.y_next, batch.u_next)
    gained = 0.5 * batch.gap * (here + discount * there)
    return jax.lax.stop_gradient(gained + discount * values.target(end, batch.y_next) - values.critic(batch.t, batch.y))
