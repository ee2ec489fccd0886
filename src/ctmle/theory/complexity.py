"""Regret bound, lambda-total complexity and the plan that follows: which gap, how many episodes, how many looks.

Everything here is up to the constants and logarithms that the paper's bounds hide: compare plans by it, and do not read
the numbers of episodes as promises.
"""

import math
from dataclasses import dataclass


def regret_bound(
    *,
    episodes: int,
    looks: int,
    delta: float,
    beta: float,
    eluder_fine: float,
    eluder: float,
    gap_squares: float,
    variances: float,
    reward_bound: float = 1.0,
) -> float:
    """The right-hand side of the theorem: iota (d_{8 beta m} beta + sqrt(d_m beta (sum gap^2 + sum Var))).

    `looks` is m_N, `eluder_fine` d at 1/(8 beta m_N), `eluder` d at 1/m_N, `gap_squares` the sum of gap^2 over all gaps
    of all episodes. A reward bounded by b_max instead of 1 per unit of time multiplies the gaps by b_max^2, without
    which the bound would depend on the unit of time.
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie strictly between 0 and 1, not {delta}")
    if episodes < 1 or looks < 2:
        raise ValueError(f"the bound needs at least 1 episode and 2 looks, not {episodes} and {looks}")
    numbers = {"beta": beta, "eluder_fine": eluder_fine, "eluder": eluder, "gap_squares": gap_squares}
    for name, value in (numbers | {"variances": variances, "reward_bound": reward_bound}).items():
        if not 0 <= value < math.inf:
            raise ValueError(f"{name} must be a number of at least 0, not {value}")
    iota = math.log(episodes / delta) * math.log(looks)
    spread = reward_bound**2 * gap_squares + variances
    return iota * (eluder_fine * beta + math.sqrt(eluder * beta * spread))


@dataclass(frozen=True)
class Problem:
    """What the lambda-total complexity depends on."""

    variance: float
    """Var^Pi, the largest total variance."""
    horizon: float
    """T in seconds."""
    epsilon: float
    """How far from optimal the policy may be."""
    dimension: float
    """d, at least the eluder dimensions and beta."""
    look_price: float
    """lambda: a look costs lambda and an episode 1 - lambda."""
    random_looks: bool = True
    """Count the one random look per gap too. The paper's formula leaves it out."""
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
    """N: d^2 / epsilon + d^2 (Var + b_max^2 T gap) / epsilon^2."""
    p = problem
    _check_gap(p, gap)
    return p.dimension**2 * (p.epsilon + p.variance + p.reward_bound**2 * p.horizon * gap) / p.epsilon**2


def total_complexity(problem: Problem, gap: float) -> float:
    """eq:comple at a gap: (1 - lambda) N + lambda N (looks per episode)."""
    looks = problem.looks_per_gap * problem.horizon / gap
    return episode_complexity(problem, gap) * (1 - problem.look_price + problem.look_price * looks)


def minimising_gap(problem: Problem) -> float:
    """min(T, sqrt(lambda (epsilon + Var) / (1 - lambda)) / b_max), with 2 lambda if random looks count; free of d.

    At lambda = 0 that is 0: then any gap is too long, and `largest_harmless_gap` is the one to take.
    """
    p = problem
    if p.look_price == 1:
        return p.horizon
    odds = p.looks_per_gap * p.look_price / (1 - p.look_price)
    return min(p.horizon, math.sqrt(odds * (p.epsilon + p.variance)) / p.reward_bound)


def largest_harmless_gap(problem: Problem) -> float:
    """(Var + epsilon) / (b_max^2 T): up to here the gap at most doubles the number of episodes.

    The paper's remark has Var / T, which is 0 for a system without noise: `largest_harmless_gap_printed`.
    """
    return min(problem.horizon, (problem.variance + problem.epsilon) / (problem.reward_bound**2 * problem.horizon))


def largest_harmless_gap_printed(problem: Problem) -> float:
    return problem.variance / problem.horizon


@dataclass(frozen=True)
class Plan:
    """Whole numbers: gaps that divide the horizon, episodes, looks."""

    gap: float
    gaps: int
    episodes: int
    looks_per_episode: int
    looks: int
    cost: float
    """(1 - lambda) N + lambda looks."""


def plan(problem: Problem) -> Plan:
    """The cheapest whole number of gaps. The cost has one minimum in the gap, so it is next to the minimising one."""
    gap = minimising_gap(problem) if problem.look_price > 0 else largest_harmless_gap(problem)
    least = max(1, math.floor(problem.horizon / gap + 1e-9))
    if problem.look_price == 0:
        return plan_at(problem, math.ceil(problem.horizon / gap - 1e-9))
    return min((plan_at(problem, gaps) for gaps in (least, least + 1)), key=lambda plan: plan.cost)


def plan_at(problem: Problem, gaps: int) -> Plan:
    """Episodes, looks and cost at a number of gaps per episode."""
    if gaps < 1:
        raise ValueError(f"there must be at least 1 gap per episode, not {gaps}")
    gap = problem.horizon / gaps
    episodes = math.ceil(episode_complexity(problem, gap))
    each = problem.looks_per_gap * gaps
    cost = (1 - problem.look_price) * episodes + problem.look_price * episodes * each
    return Plan(gap, gaps, episodes, each, episodes * each, cost)


def _check_gap(problem: Problem, gap: float) -> None:
    if not 0 < gap <= problem.horizon * (1 + 1e-9):
        raise ValueError(f"gap must lie between 0 and the horizon {problem.horizon:g}, not {gap}")
