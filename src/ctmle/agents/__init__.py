"""The named algorithms, as compositions of the parts."""

from ctmle.agents.base import Agent
from ctmle.agents.ct_mle import CTMLE, CTMLEState, Phase

__all__ = ["CTMLE", "Agent", "CTMLEState", "Phase"]
