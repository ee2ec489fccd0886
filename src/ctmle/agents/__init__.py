"""The named algorithms, as compositions of the parts."""

from ctmle.agents.base import Agent as Agent, Past as Past, Progress as Progress
from ctmle.agents.ct_mle import CTMLE as CTMLE
from ctmle.agents.enode import ENODE as ENODE
from ctmle.agents.model_based import AgentState as AgentState, ModelBasedAgent as ModelBasedAgent
from ctmle.agents.oracle import Oracle as Oracle
from ctmle.agents.sac_tacos import SacTacos as SacTacos, SacTacosState as SacTacosState, TacosPolicy as TacosPolicy
