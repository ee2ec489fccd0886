"""Lagrangian CT-MLE, the paper's practical algorithm (alg:imp-friendly)."""

from typing import Any

from ctmle.agents.model_based import ModelBasedAgent
from ctmle.models.sde_learner import SDELearner
from ctmle.models.world import Learner
from ctmle.planning.actor_critic import ActorCritic, Improver
from ctmle.planning.exploration import Exploration, SmoothSignals

PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "paper": {
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
        "policy_samples": 5,
        "policy_step": 0.125,
        "policy_rate": 5e-4,
        "policy_final_rate": 1.0,
        "bootstrap_episodes": 5,
        "saturation_cost": 0.0,
        "reset_starts": 0.0,
        "box_starts": 0.0,
        "trajectory_seconds": 50.0,
        "test_gap": 0.125,
    },
    "quick": {
        "episodes": 2,
        "ensemble": 5,
        "dynamics_hidden": (64, 64),
        "policy_hidden": (64, 64),
        "dynamics_updates": 300,
        "policy_updates": 150,
        "particles": 50,
    },
}
"""Options of each preset: what worked best in our trials; the paper's tables and text, with the changes that
docs/ct-mle.md names; a run of a minute that shows that everything works."""


def CTMLE(  # noqa: N802 - the name of the algorithm
    learner: Learner = SDELearner(),
    improver: Improver = ActorCritic(),
    exploration: Exploration = SmoothSignals(),
    **settings: Any,
) -> ModelBasedAgent:
    """Fit drift and diffusion to every look so far, with optimism; plan in that model; act; look again."""
    return ModelBasedAgent(learner, improver, exploration, **settings)
