"""Agents by their settings."""

from typing import Any

from ctmle.agents.base import Agent
from ctmle.agents.ct_mle import CTMLE
from ctmle.agents.enode import ENODE
from ctmle.agents.sac_tacos import SacTacos
from ctmle.config import CTMLEConfig, ENODEConfig, SacTacosConfig

AGENTS: dict[type, Any] = {CTMLEConfig: CTMLE, ENODEConfig: ENODE, SacTacosConfig: SacTacos}


def build_agent(learner: Any) -> Agent:
    """The agent that these settings are of."""
    return AGENTS[type(learner)](learner)
