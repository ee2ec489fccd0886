"""Decisions about claims: an estimate agrees, disagrees, or its interval covers both."""

from dataclasses import dataclass
from typing import Literal

from ctmle.lab.report.statistics import Estimate
from ctmle.lab.report.tables import Listing

Decision = Literal["agrees", "disagrees", "not decided"]


@dataclass(frozen=True)
class Verdict:
    """One line of an experiment's table of verdicts."""

    claim: str
    """The paper's claim, in our words."""
    found: str
    """The estimate from these runs with its interval."""
    decision: Decision
    seeds: int
    """Seeds in the smallest group that the estimate is made from."""


def above(estimate: Estimate, limit: float) -> Decision:
    """Decide on the claim that the quantity is larger than the limit."""
    if estimate.interval is None:
        return "not decided"
    low, high = estimate.interval
    return "agrees" if low > limit else "disagrees" if high < limit else "not decided"


def below(estimate: Estimate, limit: float) -> Decision:
    """Decide on the claim that the quantity is smaller than the limit."""
    opposite: dict[Decision, Decision] = {"agrees": "disagrees", "disagrees": "agrees", "not decided": "not decided"}
    return opposite[above(estimate, limit)]


def within(estimate: Estimate, margin: float) -> Decision:
    """Decide on the claim that a difference is smaller than the margin, in either direction."""
    if estimate.interval is None:
        return "not decided"
    low, high = estimate.interval
    if -margin < low and high < margin:
        return "agrees"
    return "disagrees" if low > margin or high < -margin else "not decided"


def is_value(estimate: Estimate, claimed: float, others: tuple[float, ...]) -> Decision:
    """Decide on the claim that the quantity has one value rather than one of the others."""
    if estimate.interval is None:
        return "not decided"
    low, high = estimate.interval
    if not low <= claimed <= high:
        return "disagrees"
    return "not decided" if any(low <= other <= high for other in others) else "agrees"


def listing(verdicts: list[Verdict]) -> Listing:
    """Tabulate verdicts."""
    rows = [(v.claim, v.found, v.decision, str(v.seeds)) for v in verdicts]
    return Listing("verdicts", ("the paper's claim", "what these runs say (95% interval)", "verdict", "seeds"), rows)
