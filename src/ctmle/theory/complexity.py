"""Bracketing numbers, radius beta, regret bound, lambda-total complexity, and the cheapest plan: gap, episodes, looks.

All results hold only up to the constants and logarithms that the paper's bounds hide. Use them to compare plans;
they do not predict the number of episodes. Bracketing numbers are logarithms because they overflow quickly.
"""

import math
from dataclasses import dataclass

from ctmle.settings import NonNegative, OpenShare, Part, Positive, Share
from ctmle.theory.limits import AtLeastOne, check


def log_bracketing_finite(drifts: int, diffusions: int) -> float:
    """log C of a finite class: C = |F||G| for every epsilon."""
    check(AtLeastOne, drifts=drifts, diffusions=diffusions)
    return math.log(drifts) + math.log(diffusions)


def log_bracketing_quadratic(dimension: int, bound: float, epsilon: float) -> float:
    """log C of (phi' M mu)^2 with ||M||_F <= sqrt(B), counted on the grid of the proof: (2 ceil(B/zeta) + 1)^(d*d).

    zeta = epsilon / (3 d^2 B). `log_bracketing_quadratic_printed` is the formula that the paper prints.
    """
    _check_quadratic(dimension, bound, epsilon)
    zeta = epsilon / (3 * dimension**2 * bound)
    return dimension**2 * math.log(2 * math.ceil(bound / zeta) + 1)


def log_bracketing_quadratic_printed(dimension: int, bound: float, epsilon: float) -> float:
    """log C as prop:infinite prints it, (3 d^2 B^3 / epsilon)^(d*d) up to a constant: less than the count if B < 2."""
    _check_quadratic(dimension, bound, epsilon)
    return max(0.0, dimension**2 * math.log(3 * dimension**2 * bound**3 / epsilon))


def eluder_bound_finite(dimension: int, bound: float, epsilon: float) -> float:
    """Bound of prop:qua on the eluder dimension, up to a constant: d_{1/epsilon} <~ d^2 log(1 + B^2 / epsilon^2)."""
    _check_quadratic(dimension, bound, epsilon)
    return dimension**2 * math.log1p((bound / epsilon) ** 2)


def eluder_bound_infinite(dimension: int, bound: float, epsilon: float) -> float:
    """Bound that the proof of prop:infinite gives: d_{1/epsilon} <~ d^2 log(1 + d^2 B^3 / epsilon^2).

    The proposition prints B^2 instead of d^2 B^3; that is `eluder_bound_finite`.
    """
    _check_quadratic(dimension, bound, epsilon)
    return dimension**2 * math.log1p(dimension**2 * bound**3 / epsilon**2)


def _check_quadratic(dimension: int, bound: float, epsilon: float) -> None:
    check(AtLeastOne, dimension=dimension)
    check(Positive, bound=bound, epsilon=epsilon)


def theory_beta(episodes: int, log_bracketing: float, delta: float) -> float:
    """Radius of the theorem: beta = 5 log(N C / delta) with the bracketing number C (|F||G| for a finite class)."""
    check(OpenShare, delta=delta)
    check(AtLeastOne, episodes=episodes)
    check(NonNegative, log_bracketing=log_bracketing)
    return 5 * (math.log(episodes) + log_bracketing - math.log(delta))


def ville_beta(models: int, delta: float, sets: int = 2) -> float:
    """Radius log(sets M / delta), which covers the truth of a finite class at all times by Ville's inequality.

    A likelihood ratio against the truth is a martingale that starts at 1, so it ever reaches sets M / delta with
    probability at most delta / (sets M); a union bound over models and sets gives delta. The radius does not depend on
    N and is about ten times smaller than the theorem's.
    """
    check(OpenShare, delta=delta)
    check(AtLeastOne, models=models, sets=sets)
    return math.log(sets * models / delta)


def regret_bound(
    *,
    episodes: int,
    looks: int,
    delta: float,
    beta: float,
    eluder: tuple[float, float],
    gap_squares: float,
    variances: float,
    reward_bound: float = 1.0,
) -> float:
    """Right-hand side of the theorem: iota (d_{8 beta m} beta + sqrt(d_m beta (b_max^2 sum gap^2 + sum Var))).

    Args:
        episodes: N.
        looks: m_N, the number of looks in all episodes.
        delta: Probability with which the bound may fail.
        beta: Radius of the confidence sets.
        eluder: Eluder dimensions at the scales 1/(8 beta m_N) and 1/m_N.
        gap_squares: Sum of gap^2 over all gaps of all episodes.
        variances: Sum of Var^{u_n} over the episodes.
        reward_bound: b_max, the largest reward per unit of time. The paper has 1; without the factor b_max^2 the bound
            would depend on the unit of time.
    """
    check(OpenShare, delta=delta)
    check(AtLeastOne, episodes=episodes)
    check(NonNegative, beta=beta, gap_squares=gap_squares, variances=variances, reward_bound=reward_bound)
    for dimension in eluder:
        check(NonNegative, eluder=dimension)
    if looks < 2:
        raise ValueError(f"looks must be at least 2, not {looks}")
    iota = math.log(episodes / delta) * math.log(looks)
    spread = reward_bound**2 * gap_squares + variances
    return iota * (eluder[0] * beta + math.sqrt(eluder[1] * beta * spread))


@dataclass(frozen=True)
class Problem(Part):
    """Quantities that determine the lambda-total complexity."""

    variance: Share
    """[Var] Largest total variance, at most 1."""
    horizon: Positive
    """[T] Horizon in seconds."""
    epsilon: Positive
    """[epsilon] Largest allowed distance of the policy's value from the optimal one."""
    dimension: Positive
    """[d] Upper bound on the eluder dimension and beta."""
    look_price: Share
    """[lambda] A look costs lambda, an episode 1 - lambda."""
    random_looks: bool = True
    """Count the random look in every gap too; the paper's formula does not."""
    reward_bound: Positive = 1.0
    """[b_max] Largest reward per second."""

    @property
    def looks_per_gap(self) -> int:
        return 2 if self.random_looks else 1


def episode_complexity(problem: Problem, gap: float) -> float:
    """N = d^2 / epsilon + d^2 (Var + b_max^2 T gap) / epsilon^2."""
    p = problem
    if not 0 < gap <= p.horizon * (1 + 1e-9):
        raise ValueError(f"gap must lie between 0 and the horizon {p.horizon:g}, not {gap}")
    return p.dimension**2 * (p.epsilon + p.variance + p.reward_bound**2 * p.horizon * gap) / p.epsilon**2


def total_complexity(problem: Problem, gap: float) -> float:
    """lambda-total complexity at a gap (eq:comple): (1 - lambda) N + lambda N (looks per episode)."""
    looks = problem.looks_per_gap * problem.horizon / gap
    return episode_complexity(problem, gap) * (1 - problem.look_price + problem.look_price * looks)


def minimising_gap(problem: Problem) -> float:
    """Gap with the lowest cost: min(T, sqrt(lambda (epsilon + Var) / (1 - lambda)) / b_max).

    lambda counts twice if random looks are counted; the result does not depend on d. At lambda = 0 it is 0, because
    every longer gap costs more episodes; then use `largest_harmless_gap`.
    """
    p = problem
    if p.look_price == 1:
        return p.horizon
    odds = p.looks_per_gap * p.look_price / (1 - p.look_price)
    return min(p.horizon, math.sqrt(odds * (p.epsilon + p.variance)) / p.reward_bound)


def largest_harmless_gap(problem: Problem) -> float:
    """Largest gap that at most doubles the number of episodes: (Var + epsilon) / (b_max^2 T).

    The paper's remark has Var / T, which is 0 for a system without noise: `largest_harmless_gap_printed`.
    """
    return min(problem.horizon, (problem.variance + problem.epsilon) / (problem.reward_bound**2 * problem.horizon))


def largest_harmless_gap_printed(problem: Problem) -> float:
    """Var / T, the paper's form of `largest_harmless_gap`."""
    return problem.variance / problem.horizon


@dataclass(frozen=True)
class GapPlan:
    """A plan in whole numbers: gaps that divide the horizon, episodes, and looks."""

    gap: float
    gaps: int
    episodes: int
    looks_per_episode: int
    looks: int
    cost: float
    """(1 - lambda) N + lambda looks."""


def plan(problem: Problem) -> GapPlan:
    """Cheapest plan with a whole number of gaps.

    The cost has one minimum in the gap, so the best whole number is next to the minimising gap.
    """
    if problem.look_price == 0:
        return plan_at(problem, math.ceil(problem.horizon / largest_harmless_gap(problem) - 1e-9))
    least = max(1, math.floor(problem.horizon / minimising_gap(problem) + 1e-9))
    return min((plan_at(problem, gaps) for gaps in (least, least + 1)), key=lambda plan: plan.cost)


def plan_at(problem: Problem, gaps: int) -> GapPlan:
    """Episodes, looks and cost for a given number of gaps per episode."""
    check(AtLeastOne, gaps=gaps)
    gap = problem.horizon / gaps
    episodes = math.ceil(episode_complexity(problem, gap))
    each = problem.looks_per_gap * gaps
    cost = (1 - problem.look_price) * episodes + problem.look_price * episodes * each
    return GapPlan(gap, gaps, episodes, each, episodes * each, cost)
