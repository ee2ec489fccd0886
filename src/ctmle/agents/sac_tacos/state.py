"""All that SAC-TaCoS knows, as one frozen record."""

from enum import IntEnum

import equinox as eqx
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ctmle.agents.sac_tacos.history import History
from ctmle.agents.sac_tacos.replay import Replay
from ctmle.agents.sac_tacos.statistics import Statistics
from ctmle.agents.sac_tacos.update import Learner
from ctmle.envs.base import Spec


class Stream(IntEnum):
    """Purposes of randomness: each has its own key, so that no use of one shifts another."""

    LEARNER = 0
    ACT = 1
    UPDATE = 2


class SacTacosState(eqx.Module):
    """What the agent knows, and where in its episode it stands.

    `gathered` are the statistics of all that was seen; the learner takes them over when it next learns. `fresh`
    decisions have been seen since it last did; of the gradient steps `due` in this episode, `pending` are to come.
    """

    spec: Spec
    key: PRNGKeyArray
    learner: Learner
    gathered: Statistics
    replay: Replay
    history: History
    trajectories: Int[Array, ""]
    looks: Int[Array, ""]
    updates: Int[Array, ""]
    fresh: Int[Array, ""]
    pending: Int[Array, ""]
    due: Int[Array, ""]
    setbacks: Int[Array, ""]
    metrics: dict[str, Float[Array, ""]]
