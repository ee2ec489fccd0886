"""Agents by their settings."""

from typing import Any

from ctmle.agents.base import Agent
from ctmle.agents.ct_mle import CTMLE
from ctmle.config import CTMLEConfig

AGENTS: dict[type, Any] = {CTMLEConfig: CTMLE}


def build_agent(learner: Any) -> Agent:
    """The agent that these settings are of."""
    return AGENTS[type(learner)](learner)
