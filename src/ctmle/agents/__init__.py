"""The named algorithms, as compositions of the parts."""

from ctmle.agents.base import Agent, Past, Practises, Progress
from ctmle.agents.ct_mle import CTMLE
from ctmle.agents.enode import ENODE
from ctmle.agents.model_based import AgentState, ModelBasedAgent
from ctmle.agents.oracle import Oracle
from ctmle.agents.sac_tacos import SacTacos, SacTacosState, TacosPolicy

__all__ = [
    "CTMLE",
    "ENODE",
    "Agent",
    "AgentState",
    "ModelBasedAgent",
    "Oracle",
    "Past",
    "Practises",
    "Progress",
    "SacTacos",
    "SacTacosState",
    "TacosPolicy",
]
