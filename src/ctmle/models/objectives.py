"""Losses of a transition law at a look: exact likelihood, or the paper's sliced score matching."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ctmle.models.background import Background
from ctmle.models.gaussian import Gaussian
from ctmle.registry import OBJECTIVES, Registry
from ctmle.settings import CountFromZero, Limit, Part

Losses = Float[Array, "*batch"]
Residuals = Float[Array, "*batch observed"]
Tail = Annotated[float, Limit("at least 0 and below 1", 0.0, 1.0, open_high=True)]


class Objective(Part):
    """A loss per sample, from the law at each look and the residual (the measurement minus the law's mean)."""

    choices: ClassVar[Registry] = OBJECTIVES
    blind: ClassVar[bool] = False
    """True if the loss differentiates the law by the end of a gap: then the law must not depend on it."""

    @abstractmethod
    def __call__(self, law: Gaussian, residual: Residuals, gap: Losses, key: PRNGKeyArray) -> Losses: ...

    def bounded(self, losses: Losses, background: Background) -> tuple[Losses, Losses]:
        """Return losses that no look can exceed by much, and the share of each look that the background explains."""
        return losses, jnp.zeros_like(losses)

    @abstractmethod
    def leverage(self, law: Gaussian, gap: Losses) -> Losses:
        """Return the factor on a log-density with which it curves at most as much in the mean as this loss."""


@dataclass(frozen=True)
class NegativeLogLikelihood(Objective):
    """-log p(y' | u, y, gap): the exact form of the likelihoods in alg:imp-friendly."""

    tail: Tail = 0.02
    """Share of a wide density around the look before, for the few looks that no law explains; 0: none."""

    def __call__(self, law: Gaussian, residual: Residuals, gap: Losses, key: PRNGKeyArray) -> Losses:
        return -law.log_prob(residual)

    def bounded(self, losses: Losses, background: Background) -> tuple[Losses, Losses]:
        if self.tail == 0:
            return super().bounded(losses, background)
        weight = background.log_weight(self.tail)
        explained, unexplained = jnp.log1p(-jnp.exp(weight)) - losses, weight + background.log_prob
        return -jnp.logaddexp(explained, unexplained), jax.nn.sigmoid(unexplained - explained)

    def leverage(self, law: Gaussian, gap: Losses) -> Losses:
        return jnp.ones_like(gap)


@dataclass(frozen=True)
class SlicedScoreMatching(Objective):
    """The paper's J_SSM (steps 2d to 2f of "Implementation Details"). Long gaps have linearised moments.

    The loss scales as 1/gap, and a random look may come arbitrarily near its grid look; weighting by the gap takes the
    score of the increment scaled by sqrt(gap): the same minimiser at a bounded scale.
    """

    blind = True

    projections: CountFromZero = 1
    """[M_proj] Rademacher projections per sample; 0 takes their expectation in closed form."""
    gap_weighted: bool = True
    """Weight the loss by the gap: the same minimiser, finite as gaps shrink. The paper has no weight."""

    def __call__(self, law: Gaussian, residual: Residuals, gap: Losses, key: PRNGKeyArray) -> Losses:
        if self.projections == 0:
            losses = gaussian_score_matching(law, residual)
        else:
            shape = (self.projections, *residual.shape)
            signs = jax.random.rademacher(key, shape, residual.dtype)
            losses = jnp.mean(jax.vmap(lambda v: sliced_score_matching(law.score, residual, v))(signs), axis=0)
        return losses * gap if self.gap_weighted else losses

    def leverage(self, law: Gaussian, gap: Losses) -> Losses:
        """The loss curves as Sigma^-2, a log-density as Sigma^-1: their ratio is at least 1 / trace(Sigma)."""
        curvature = 1.0 / jnp.sum(law.factor**2, axis=(-2, -1))
        return curvature * gap if self.gap_weighted else curvature


def sliced_score_matching(score: Callable[[Residuals], Residuals], x: Residuals, v: Residuals) -> Losses:
    """1/2 |s(x)|^2 + v' grad(v' s(x)) for any score function that acts on each sample of a batch (step 2e)."""
    value, along = jax.jvp(score, (x,), (v,))
    return 0.5 * jnp.sum(value**2, axis=-1) + jnp.sum(v * along, axis=-1)


def gaussian_score_matching(law: Gaussian, residual: Residuals) -> Losses:
    """The expectation of the above over Rademacher v for a Gaussian: 1/2 |Sigma^-1 r|^2 - trace(Sigma^-1)."""
    return 0.5 * jnp.sum(law.score(residual) ** 2, axis=-1) - law.precision_trace()
