"""Leaning towards good news: the planning term of Lagrangian CT-MLE (step 3 of "Implementation Details")."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ctmle.data.dataset import Transitions
from ctmle.envs.base import Spec
from ctmle.planning.improve import Critic

TABLE_ETA_BASE = 4.0
"""eta_base in the paper's table: at this value the fitting term is `ratio` (10) times the planning term."""


class CriticAdvantage(eqx.Module):
    """A = b(y, u) gap + exp(-gap / tau) V'(y_next) - V(y), by the critic V and the target V' (step 3a)."""

    critic: Critic
    target: Critic
    spec: Spec
    discount_time: float = eqx.field(static=True)

    def __call__(self, batch: Transitions) -> Float[Array, "groups samples"]:
        discount = jnp.exp(-batch.gap / self.discount_time)
        gained = self.spec.reward(batch.y, batch.u) * batch.gap
        return gained + discount * self.target(batch.y_next) - self.critic(batch.y)


def eta(eta_base: float, episode: int) -> float:
    """The annealed multiplier eta_n = eta_base / n, for n = 1, 2, ..."""
    return eta_base / episode


def planning_share(eta_base: float, episode: int, ratio: float) -> float:
    """The wanted size of the planning term as a share of the fitting term, in the mean form of the loss.

    alg:imp-friendly maximises R + eta_n * (sum over n episodes of log-likelihoods); per episode that is
    eta_n * n = eta_base of likelihood to one R, whatever n is. So the share is constant, which is the paper's
    "stable 10:1", and a large eta_base switches optimism off, which is its gap experiment.
    """
    return TABLE_ETA_BASE / (eta(eta_base, episode) * episode * ratio)
