"""Calculators for the quantities in the paper: total variance, regret bounds, complexity measures and plans.

Calculators take and return plain numbers and NumPy arrays, and only `simulated_returns` loads JAX. `ctmle.theory.exact`
runs the paper's algorithm on classes that can be enumerated.
"""

from ctmle.theory import ornstein_uhlenbeck as ornstein_uhlenbeck, quadratic as quadratic
from ctmle.theory.complexity import (
    GapPlan as GapPlan,
    Problem as Problem,
    eluder_bound_finite as eluder_bound_finite,
    eluder_bound_infinite as eluder_bound_infinite,
    episode_complexity as episode_complexity,
    largest_harmless_gap as largest_harmless_gap,
    largest_harmless_gap_printed as largest_harmless_gap_printed,
    log_bracketing_finite as log_bracketing_finite,
    log_bracketing_quadratic as log_bracketing_quadratic,
    log_bracketing_quadratic_printed as log_bracketing_quadratic_printed,
    minimising_gap as minimising_gap,
    plan as plan,
    plan_at as plan_at,
    regret_bound as regret_bound,
    theory_beta as theory_beta,
    total_complexity as total_complexity,
    ville_beta as ville_beta,
)
from ctmle.theory.eluder import (
    eluder_dimension as eluder_dimension,
    gaussian_hellinger2 as gaussian_hellinger2,
    greedy_eluder_dimension as greedy_eluder_dimension,
    hellinger2 as hellinger2,
)
from ctmle.theory.variance import (
    Smoothness as Smoothness,
    VarianceEstimate as VarianceEstimate,
    estimate_variance as estimate_variance,
    simulated_returns as simulated_returns,
    variance_bound as variance_bound,
    variance_bound_printed as variance_bound_printed,
    variance_bound_tight as variance_bound_tight,
)
