"""Lagrangian CT-MLE, the paper's practical algorithm (alg:imp-friendly)."""

from typing import Any

from ctmle.agents.model_based import ModelBasedAgent
from ctmle.models.basis_learner import BasisLearner
from ctmle.models.world import Learner
from ctmle.planning.actor_critic import ActorCritic, Improver
from ctmle.planning.exploration import Exploration, SmoothSignals

PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "paper": {
        "model": "ensemble",
        "kinematics": False,
        "observation": "trig",
        "objective": "score-matching",
        "gap_weighted": False,
        "law": "euler",
        "chained": "never",
        "diffusion": "constant",
        "diffusion_floor": 0.1,
        "solver": "dopri5",
        "longest_step": 0.125,
        "dynamics_rate": 1e-3,
        "dynamics_final_rate": 1.0,
        "policy_hidden": (200, 200),
        "policy_updates": 250,
        "policy_rounds": 1,
        "keep_best": False,
        "policy_samples": 5,
        "policy_step": 0.125,
        "policy_rate": 5e-4,
        "policy_final_rate": 1.0,
        "target_rate": None,
        "bootstrap_episodes": 5,
        "saturation_cost": 0.0,
        "pool_starts": 0.0,
        "rest_starts": 0.0,
        "box_starts": 0.0,
        "box_circles": False,
        "initial_trajectories": 3,
        "trajectory_seconds": 50.0,
        "test_gap": 0.125,
    },
    "quick": {"episodes": 2, "policy_updates": 200, "policy_rounds": 1},
}
"""Options of each preset: what worked best in our trials; the paper's tables and text, with the changes that
docs/ct-mle.md names; a run of seconds that shows that everything works."""


def CTMLE(  # noqa: N802 - the name of the algorithm
    learner: Learner = BasisLearner(),
    improver: Improver = ActorCritic(),
    exploration: Exploration = SmoothSignals(),
    **settings: Any,
) -> ModelBasedAgent:
    """Fit drift and diffusion to every look so far, with optimism; plan in that model; act; look again."""
    return ModelBasedAgent(learner, improver, exploration, **settings)
