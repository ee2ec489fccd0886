"""The paper's experiments: the runs that each needs, and what their results say about the paper's claims."""

from dataclasses import dataclass
from typing import Literal

from ctmle.settings import Count, Part


@dataclass(frozen=True, kw_only=True)
class PaperRequest(Part):
    """Options that every experiment of the paper has."""

    size: Literal["paper", "small", "smoke"] = "small"
    """The paper's whole grid (days), one that two cores manage in hours, or a tiny one that only tests the code."""
    seeds: Count | None = None
    """Seeds 0, 1, ... of every setting; none: as many as the size has."""
    environments: tuple[Literal["pendulum", "cartpole", "acrobot"], ...] = ()
    """Systems to run on; none: those of the size."""
    preset: Literal["default", "paper"] = "default"
    """Start of the agents' settings: those that we found to work, or those of the papers' tables and code."""
