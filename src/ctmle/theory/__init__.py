"""The paper's numbers, computed: exact classes, confidence sets, total variance, regret bounds, complexity and plans.

Everything here works in double precision by itself. Calculators take and give plain numbers and NumPy arrays.
"""

from ctmle.theory import ornstein_uhlenbeck, quadratic
from ctmle.theory.bracketing import (
    eluder_bound_finite,
    eluder_bound_infinite,
    log_bracketing_finite,
    log_bracketing_quadratic,
    log_bracketing_quadratic_printed,
)
from ctmle.theory.classes import FiniteClass, GivenClass, LinearClass, given_class, linear_class, walk
from ctmle.theory.complexity import (
    Plan,
    Problem,
    episode_complexity,
    largest_harmless_gap,
    largest_harmless_gap_printed,
    minimising_gap,
    plan,
    plan_at,
    regret_bound,
    total_complexity,
)
from ctmle.theory.confidence import confidence_set, theory_beta, ville_beta
from ctmle.theory.distinguish import hellinger_table
from ctmle.theory.eluder import eluder_dimension, greedy_eluder_dimension
from ctmle.theory.examples import feedback, hidden_arm, rotation, speed, volatility
from ctmle.theory.hellinger import gaussian_hellinger2, hellinger2
from ctmle.theory.linear import Affine, LinearLaw, MatrixLaw, Spiral, matrix_law
from ctmle.theory.reward import Bump, total_variances, values
from ctmle.theory.saturated import saturated
from ctmle.theory.variance import (
    Smoothness,
    VarianceEstimate,
    class_returns,
    closed_loop_smoothness,
    estimate_variance,
    simulated_returns,
    variance_bound,
    variance_bound_printed,
    variance_bound_tight,
)

__all__ = [
    "Affine",
    "Bump",
    "FiniteClass",
    "GivenClass",
    "LinearClass",
    "LinearLaw",
    "MatrixLaw",
    "Plan",
    "Problem",
    "Smoothness",
    "Spiral",
    "VarianceEstimate",
    "class_returns",
    "closed_loop_smoothness",
    "confidence_set",
    "eluder_bound_finite",
    "eluder_bound_infinite",
    "eluder_dimension",
    "episode_complexity",
    "estimate_variance",
    "feedback",
    "gaussian_hellinger2",
    "given_class",
    "greedy_eluder_dimension",
    "hellinger2",
    "hellinger_table",
    "hidden_arm",
    "largest_harmless_gap",
    "largest_harmless_gap_printed",
    "linear_class",
    "log_bracketing_finite",
    "log_bracketing_quadratic",
    "log_bracketing_quadratic_printed",
    "matrix_law",
    "minimising_gap",
    "ornstein_uhlenbeck",
    "plan",
    "plan_at",
    "quadratic",
    "regret_bound",
    "rotation",
    "saturated",
    "simulated_returns",
    "speed",
    "theory_beta",
    "total_complexity",
    "total_variances",
    "values",
    "variance_bound",
    "variance_bound_printed",
    "variance_bound_tight",
    "ville_beta",
    "volatility",
    "walk",
]
