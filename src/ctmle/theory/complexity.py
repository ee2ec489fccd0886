"""Radius beta, regret bound, lambda-total complexity, and the cheapest plan: gap, episodes and looks.

All results hold only up to the constants and logarithms that the paper's bounds hide. Use them to compare plans;
they do not predict the number of episodes.
"""

import math
from dataclasses import dataclass


def theory_beta(episodes: int, log_bracketing: float, delta: float) -> float:
    """Radius of the theorem: beta = 5 log(N C / delta) with the bracketing number C (|F||G| for a finite class)."""
    _check_delta(delta)
    if episodes < 1:
        raise ValueError(f"episodes must be at least 1, not {episodes}")
    if log_bracketing < 0:
        raise ValueError(f"a bracketing number is at least 1, so its logarithm cannot be {log_bracketing}")
    return 5 * (math.log(episodes) + log_bracketing - math.log(delta))


def ville_beta(models: int, delta: float, sets: int = 2) -> float:
    """Radius log(sets M / delta), which covers the truth of a finite class at all times by Ville's inequality.

    A likelihood ratio against the truth is a martingale that starts at 1, so it ever reaches sets M / delta with
    probability at most delta / (sets M); a union bound over models and sets gives delta. The radius does not depend on
    N and is about ten times smaller than the theorem's.
    """
    _check_delta(delta)
    if models < 1 or sets not in (1, 2):
        raise ValueError(f"there must be at least one model and one or two sets, not {models} and {sets}")
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
    _check_delta(delta)
    if episodes < 1 or looks < 2:
        raise ValueError(f"the bound needs at least 1 episode and 2 looks, not {episodes} and {looks}")
    numbers = {"beta": [beta], "eluder": eluder, "gap_squares": [gap_squares], "variances": [variances]}
    for name, values in (numbers | {"reward_bound": [reward_bound]}).items():
        if not all(0 <= value < math.inf for value in values):
            raise ValueError(f"{name} must be a number of at least 0, not {' and '.join(map(str, values))}")
    iota = math.log(episodes / delta) * math.log(looks)
    spread = reward_bound**2 * gap_squares + variances
    return iota * (eluder[0] * beta + math.sqrt(eluder[1] * beta * spread))


@dataclass(frozen=True)
class Problem:
    """Quantities that determine the lambda-total complexity."""

    variance: float
    """Var^Pi, the largest total variance."""
    horizon: float
    """T in seconds."""
    epsilon: float
    """Largest allowed distance of the policy's value from the optimal one."""
    dimension: float
    """d, an upper bound on the eluder dimensions and beta."""
    look_price: float
    """lambda: a look costs lambda and an episode 1 - lambda."""
    random_looks: bool = True
    """Count the one random look per gap too. The paper's formula omits it."""
    reward_bound: float = 1.0
    """b_max, the largest reward per unit of time."""

    def __post_init__(self) -> None:
        if not 0 <= self.variance <= 1:
            raise ValueError(
                f"variance must lie between 0 and 1 (the reward's integral is at most 1), not {self.variance}"
            )
        if not 0 <= self.look_price <= 1:
            raise ValueError(f"look_price is lambda and must lie between 0 and 1, not {self.look_price}")
        for name in ("horizon", "epsilon", "dimension", "reward_bound"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be a positive number, not {getattr(self, name)}")

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
    if gaps < 1:
        raise ValueError(f"there must be at least 1 gap per episode, not {gaps}")
    gap = problem.horizon / gaps
    episodes = math.ceil(episode_complexity(problem, gap))
    each = problem.looks_per_gap * gaps
    cost = (1 - problem.look_price) * episodes + problem.look_price * episodes * each
    return GapPlan(gap, gaps, episodes, each, episodes * each, cost)


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie strictly between 0 and 1, not {delta}")
