"""How well a transition law fits a look: exact likelihood, or the paper's sliced score matching."""

from abc import abstractmethod
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ctmle.dynamics.gaussian import Gaussian

Losses = Float[Array, "*batch"]
Residuals = Float[Array, "*batch observed"]


class Objective(eqx.Module):
    """A loss per sample, from the law at each look and the residual (what was seen minus the law's mean)."""

    @abstractmethod
    def __call__(self, law: Gaussian, residual: Residuals, gap: Losses, key: PRNGKeyArray) -> Losses: ...

    @abstractmethod
    def leverage(self, law: Gaussian, gap: Losses) -> Losses:
        """What a log-density is multiplied by so that its curvature in the mean is at most that of this loss."""


class NegativeLogLikelihood(Objective):
    """-log p(y' | u, y, gap): the exact form of the likelihoods in alg:imp-friendly."""

    def __call__(self, law: Gaussian, residual: Residuals, gap: Losses, key: PRNGKeyArray) -> Losses:
        return -law.log_prob(residual)

    def leverage(self, law: Gaussian, gap: Losses) -> Losses:
        return jnp.ones_like(gap)


class SlicedScoreMatching(Objective):
    """The paper's J_SSM (steps 2d to 2f of "Implementation Details").

    The loss scales as 1/gap, and a random look may come arbitrarily near its grid look; `weighted` multiplies it by
    the gap, which is the score of the increment scaled by sqrt(gap): the same minimiser at a bounded scale.
    `projections` = 0 takes the closed form for Gaussians, which is what projections have in expectation.
    """

    projections: int = eqx.field(static=True, default=1)
    weighted: bool = eqx.field(static=True, default=True)

    def __call__(self, law: Gaussian, residual: Residuals, gap: Losses, key: PRNGKeyArray) -> Losses:
        if self.projections == 0:
            losses = gaussian_score_matching(law, residual)
        else:
            shape = (self.projections, *residual.shape)
            signs = jax.random.rademacher(key, shape, residual.dtype)
            losses = jnp.mean(jax.vmap(lambda v: sliced_score_matching(law.score, residual, v))(signs), axis=0)
        return losses * gap if self.weighted else losses

    def leverage(self, law: Gaussian, gap: Losses) -> Losses:
        """The loss curves as Sigma^-2, a log-density as Sigma^-1: their ratio is at least 1 / trace(Sigma)."""
        curvature = 1.0 / jnp.sum(law.factor**2, axis=(-2, -1))
        return curvature * gap if self.weighted else curvature


def sliced_score_matching(score: Callable[[Residuals], Residuals], x: Residuals, v: Residuals) -> Losses:
    """1/2 |s(x)|^2 + v' grad(v' s(x)) for any score function that acts on each sample of a batch (step 2e)."""
    value, along = jax.jvp(score, (x,), (v,))
    return 0.5 * jnp.sum(value**2, axis=-1) + jnp.sum(v * along, axis=-1)


def gaussian_score_matching(law: Gaussian, residual: Residuals) -> Losses:
    """The expectation of the above over Rademacher v for a Gaussian: 1/2 |Sigma^-1 r|^2 - trace(Sigma^-1)."""
    return 0.5 * jnp.sum(law.score(residual) ** 2, axis=-1) - law.precision_trace()
