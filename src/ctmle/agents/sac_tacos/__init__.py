"""SAC-TaCoS: soft actor-critic that decides what to do and for how long (Treven et al., 2024)."""

from ctmle.agents.sac_tacos.agent import SacTacos, SacTacosState
from ctmle.agents.sac_tacos.mdp import TacosPolicy

__all__ = ["SacTacos", "SacTacosState", "TacosPolicy"]
