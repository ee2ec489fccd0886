"""SAC-TaCoS: soft actor-critic that decides what to do and for how long."""

from ctmle.agents.sac_tacos.agent import SacTacos
from ctmle.agents.sac_tacos.policy import TacosPolicy
from ctmle.agents.sac_tacos.state import SacTacosState

__all__ = ["SacTacos", "SacTacosState", "TacosPolicy"]
