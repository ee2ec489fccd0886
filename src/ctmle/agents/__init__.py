"""The named algorithms, as compositions of the parts."""

from ctmle.agents.base import Agent, ModelBased, Past, Practising, Standing
from ctmle.agents.ct_mle import CTMLE
from ctmle.agents.enode import ENODE
from ctmle.agents.model_based import ModelBasedAgent
from ctmle.agents.phases import ModelBasedState, Phase
from ctmle.agents.registry import build_agent
from ctmle.agents.sac_tacos import SacTacos, SacTacosState, TacosPolicy

__all__ = [
    "CTMLE",
    "ENODE",
    "Agent",
    "ModelBased",
    "ModelBasedAgent",
    "ModelBasedState",
    "Past",
    "Phase",
    "Practising",
    "SacTacos",
    "SacTacosState",
    "Standing",
    "TacosPolicy",
    "build_agent",
]
