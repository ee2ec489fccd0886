"""ENODE: a deterministic ensemble of neural ODEs with a continuous-time actor-critic (Yildiz et al., 2021)."""

from typing import Any

from ctmle.agents.model_based import ModelBasedAgent
from ctmle.models.ode_learner import ODELearner
from ctmle.models.world import Learner
from ctmle.planning.actor_critic import ActorCritic, Improver
from ctmle.planning.exploration import Exploration, SmoothSignals

LOOKING: dict[str, Any] = {"gap": 0.1, "random_looks": False}

PRESETS: dict[str, dict[str, Any]] = {
    "default": LOOKING,
    "paper": {
        **LOOKING,
        "observation": "trig",
        "trajectory_seconds": 5.0,
        "noise": "fixed",
        "solver": "dopri5",
        "dynamics_final_rate": 1.0,
        "weight_decay": 0.0,
        "kinematics": False,
        "policy_hidden": (200, 200),
        "policy_updates": 250,
        "policy_rounds": 1,
        "keep_best": False,
        "policy_horizon": 2.0,
        "policy_rate": 1e-3,
        "policy_final_rate": 1.0,
        "particles": 500,
        "target_rate": None,
        "target_every": 100,
        "gradient_clip": 1e5,
        "bootstrap_episodes": 5,
        "saturation_cost": 0.0,
        "pool_starts": 0.0,
        "rest_starts": 0.0,
        "box_starts": 0.0,
        "box_circles": False,
        "recent_starts": 5,
    },
    "quick": {
        **LOOKING,
        "episodes": 2,
        "dynamics_hidden": (64, 64),
        "dynamics_updates": 500,
        "policy_updates": 200,
        "policy_rounds": 1,
        "particles": 50,
    },
}
"""Options of each preset. Numbers of trajectories, and the `paper` preset, are those of the public code; docs/enode.md
lists where they still differ."""


def ENODE(  # noqa: N802 - the name of the algorithm
    learner: Learner = ODELearner(),
    improver: Improver = ActorCritic(),
    exploration: Exploration = SmoothSignals(initial=3),
    **settings: Any,
) -> ModelBasedAgent:
    """Match slopes once; fit multi-step predictions of looks; plan in that model; act; look again."""
    return ModelBasedAgent(learner, improver, exploration, **settings)
