"""What we do: policies, imagined trajectories, the actor-critic, optimism."""

from ctmle.planning.improve import ActorCritic, Critic, Improve, improve_updates, returns_to_go
from ctmle.planning.optimism import CriticAdvantage, planning_share
from ctmle.planning.policy import Feedback, Policy, Signal, init_feedback, random_signal, silent_signal
from ctmle.planning.rollout import LearnedWorld, Rollout, TrueWorld, World, rollout
from ctmle.planning.starts import Starts

__all__ = [
    "ActorCritic",
    "Critic",
    "CriticAdvantage",
    "Feedback",
    "Improve",
    "LearnedWorld",
    "Policy",
    "Rollout",
    "Signal",
    "Starts",
    "TrueWorld",
    "World",
    "improve_updates",
    "init_feedback",
    "planning_share",
    "random_signal",
    "returns_to_go",
    "rollout",
    "silent_signal",
]
