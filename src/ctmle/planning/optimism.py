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
    """A = integral of b over the gap + exp(-gap / tau) V'(y_next) - V(y), by critic V and target V' (step 3a).

    The integral is taken by the trapezoidal rule, as in the critic's own targets.
    """

    critic: Critic
    target: Critic
    spec: Spec
    discount_time: float = eqx.field(static=True)

    def __call__(self, batch: Transitions) -> Float[Array, "groups samples"]:
        discount = jnp.exp(-batch.gap / self.discount_time)
        here, there = self.spec.reward(batch.y, batch.u), self.spec.reward(batch.y_next, batch.u_next)
        gained = 0.5 * batch.gap * (here + discount * there)
        return gained + discount * self.target(batch.y_next) - self.critic(batch.y)


def eta(eta_base: float, episode: int) -> float:
    """The annealed multiplier eta_n = eta_base / n, for n = 1, 2, ..."""
    return eta_base / episode


def planning_share(eta_base: float, episode: int, ratio: float) -> float:
    """The wanted size of the planning term's gradient as a share of the fitting term's, in the mean form of the loss.

    It is 0 in episode 1, whose critic is untrained. Later, alg:imp-friendly maximises R + eta_n * (sum over n episodes
    of log-likelihoods); per episode that is eta_n * n = eta_base of likelihood to one R, whatever n is. So the share is
    constant, which is the paper's "stable 10:1", and a large eta_base switches optimism off, which is its gap
    experiment.
    """
    return 0.0 if episode == 1 else TABLE_ETA_BASE / (eta(eta_base, episode) * episode * ratio)
