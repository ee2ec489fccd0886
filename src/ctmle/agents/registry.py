"""Agents by their settings."""

from ctmle.agents.base import Agent
from ctmle.agents.ct_mle import CTMLE
from ctmle.agents.enode import ENODE
from ctmle.agents.sac_tacos import SacTacos
from ctmle.config import CTMLEConfig, ENODEConfig, SacTacosConfig


def build_agent(learner: CTMLEConfig | ENODEConfig | SacTacosConfig, episodes: int) -> Agent:
    """The agent that these settings are of, with room for so many episodes."""
    if isinstance(learner, SacTacosConfig):
        return SacTacos(learner)
    if isinstance(learner, ENODEConfig):
        return ENODE(learner, episodes=episodes)
    return CTMLE(learner, episodes=episodes)
