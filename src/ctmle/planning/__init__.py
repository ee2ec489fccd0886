"""What we do: policies, imagined trajectories, the actor-critic, exploration."""

from ctmle.planning.actor_critic import ActorCritic, Critic, returns_to_go
from ctmle.planning.exploration import Exploration, SmoothSignals, plain
from ctmle.planning.improver import Improver
from ctmle.planning.policy import Feedback, Policy, Signal, init_feedback, random_signal, silent_signal
from ctmle.planning.rollout import Rollout, rollout
from ctmle.planning.starts import MixedStarts, Starts

__all__ = [
    "ActorCritic",
    "Critic",
    "Exploration",
    "Feedback",
    "Improver",
    "MixedStarts",
    "Policy",
    "Rollout",
    "Signal",
    "SmoothSignals",
    "Starts",
    "init_feedback",
    "plain",
    "random_signal",
    "returns_to_go",
    "rollout",
    "silent_signal",
]
