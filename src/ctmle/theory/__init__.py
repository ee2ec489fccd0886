"""Calculators for the quantities in the paper: total variance, regret bounds, complexity measures and plans.

Calculators take and return plain numbers and NumPy arrays, and none of those below loads JAX. `ctmle.theory.exact` runs
the paper's algorithm on classes that can be enumerated, and `ctmle.theory.returns` simulates returns.
"""

from ctmle.theory import ornstein_uhlenbeck, quadratic
from ctmle.theory.bracketing import (
    eluder_bound_finite,
    eluder_bound_infinite,
    log_bracketing_finite,
    log_bracketing_quadratic,
    log_bracketing_quadratic_printed,
)
from ctmle.theory.complexity import (
    GapPlan,
    Problem,
    episode_complexity,
    largest_harmless_gap,
    largest_harmless_gap_printed,
    minimising_gap,
    plan,
    plan_at,
    regret_bound,
    theory_beta,
    total_complexity,
    ville_beta,
)
from ctmle.theory.eluder import eluder_dimension, greedy_eluder_dimension
from ctmle.theory.hellinger import gaussian_hellinger2, hellinger2
from ctmle.theory.variance import (
    Smoothness,
    VarianceEstimate,
    estimate_variance,
    variance_bound,
    variance_bound_printed,
    variance_bound_tight,
)

__all__ = [
    "GapPlan",
    "Problem",
    "Smoothness",
    "VarianceEstimate",
    "eluder_bound_finite",
    "eluder_bound_infinite",
    "eluder_dimension",
    "episode_complexity",
    "estimate_variance",
    "gaussian_hellinger2",
    "greedy_eluder_dimension",
    "hellinger2",
    "largest_harmless_gap",
    "largest_harmless_gap_printed",
    "log_bracketing_finite",
    "log_bracketing_quadratic",
    "log_bracketing_quadratic_printed",
    "minimising_gap",
    "ornstein_uhlenbeck",
    "plan",
    "plan_at",
    "quadratic",
    "regret_bound",
    "theory_beta",
    "total_complexity",
    "variance_bound",
    "variance_bound_printed",
    "variance_bound_tight",
    "ville_beta",
]
