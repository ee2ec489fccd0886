"""Settings of CT-MLE."""

from dataclasses import dataclass
from typing import Literal

from ctmle.config.model_based import ModelBasedConfig

LONGEST_SEGMENT = 0.125
"""In seconds: over how much of a gap the covariance has one linearisation."""


@dataclass(frozen=True)
class CTMLEConfig(ModelBasedConfig):
    """Lagrangian CT-MLE. Symbols in brackets are those of the paper's tables."""

    longest_step: float = 0.0625
    """Longest step of the integrator in seconds. Feedback may be steep: it has to be resolved between looks."""
    diffusion: Literal["constant", "state"] = "state"
    """Whether the learned diffusion depends on the state."""
    diffusion_floor: float = 0.01
    """Smallest diffusion that can be learned; it keeps the likelihood finite when sigma is 0."""
    diffusion_rate: float = 10.0
    """How many times faster the level of the diffusion learns than the drift."""
    objective: Literal["likelihood", "score-matching"] = "likelihood"
    """Fit by exact negative log-likelihood, or by sliced score matching as the paper does."""
    projections: int = 1
    """[M_proj] Rademacher projections per sample in score matching; 0 takes their expectation in closed form."""
    gap_weighted: bool = True
    """Weight score matching by the gap: the same minimiser, finite as gaps shrink. The paper has no weight."""
    chained: bool = False
    """With random looks, score grid look to random look to grid look instead of the paper's two likelihoods."""
    control: Literal["closed-loop", "hold"] = "closed-loop"
    """Control during a gap in the likelihood: the policy that acted, or its value at the gap's start (appendix, 2b)."""
    covariance: Literal["moments", "euler"] = "moments"
    """Covariance of a transition: linearised moments, or g^2 * gap (appendix, 2c)."""

    optimism: bool = True
    """Lean the fit towards models in which the policy does well."""
    eta_base: float = 4.0
    """[eta_base] Base of the Lagrange multiplier eta_n = eta_base / n. Large: less optimism."""
    optimism_ratio: float = 10.0
    """[10:1] Size of the fitting term over that of the planning term at eta_base = 4; kappa_n adapts to keep it."""
