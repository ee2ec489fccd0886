"""The oracle: the same improver in the true SDE. Its policy is the u* that regret is measured against."""

from typing import Any

from ctmle.agents.model_based import ModelBasedAgent
from ctmle.envs.base import Env
from ctmle.models.world import KnownModel
from ctmle.planning.actor_critic import ActorCritic, Improver


def Oracle(env: Env, improver: Improver = ActorCritic(), **settings: Any) -> ModelBasedAgent:  # noqa: N802
    """Improve a policy in the true SDE, with nothing to learn about the system."""
    return ModelBasedAgent(KnownModel(env), improver, **settings)
