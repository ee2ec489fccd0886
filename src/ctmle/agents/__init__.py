"""The named algorithms, as compositions of the parts."""

from ctmle.agents.base import Agent, ModelBased, Past, Standing
from ctmle.agents.ct_mle import CTMLE, CTMLEState, Phase
from ctmle.agents.exact import ExactCTMLE
from ctmle.agents.registry import build_agent

__all__ = ["CTMLE", "Agent", "CTMLEState", "ExactCTMLE", "ModelBased", "Past", "Phase", "Standing", "build_agent"]
