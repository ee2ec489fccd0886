"""Settings small enough to train in a test."""

from typing import Any

from ctmle import agents
from ctmle.agents.sac_tacos import SacTacos
from ctmle.lab.experiment import Experiment, from_settings
from ctmle.options import apply

MODEL_BASED = {
    "first_seconds": None,
    "trajectory_seconds": None,
    "growth": 1.0,
    "initial_trajectories": 2,
    "policy_hidden": (16, 16),
    "policy_updates": 6,
    "policy_rounds": 2,
    "particles": 8,
    "critic_steps": 2,
    "critic_batch": 16,
    "chunk": 4,  # does not divide the updates: the last chunk of a stage is shorter
}
NETWORKS = {
    "ensemble": 2,
    "dynamics_hidden": (16, 16),
    "dynamics_batch": 3,
    "dynamics_updates": 6,
}

SETTINGS: dict[str, dict[str, Any]] = {
    "ct-mle": {"model": "ensemble", **MODEL_BASED, **NETWORKS, "dynamics_length": 3},
    "ct-mle basis": {**MODEL_BASED, "waves": 10, "evidence_steps": 5, "posterior_samples": 4},
    "enode": {
        **MODEL_BASED,
        **NETWORKS,
        "exploring_trajectories": 1,
        "dynamics_length": 4,
        "matching_updates": 6,
        "matching_batch": 4,
    },
    "sac-tacos": {
        "initial_trajectories": 2,
        "max_hold": 10,
        "hidden": (8, 8),
        "batch": 8,
        "updates_per_decision": 0.5,
        "replay_capacity": 64,
        "chunk": 4,
    },
}

RUN: dict[str, Any] = {"horizon": 4.0, "gap": 0.125, "step": 0.05, "episodes": 2, "test_trajectories": 3}

AGENT = apply(agents.CTMLE(), SETTINGS["ct-mle"])
BASIS = apply(agents.CTMLE(), SETTINGS["ct-mle basis"])
ODE = apply(agents.ENODE(), SETTINGS["enode"])
TACOS = apply(SacTacos(), SETTINGS["sac-tacos"])


def run_experiment(agent: str = "ct-mle", **options: Any) -> Experiment:
    """Return a run of two short episodes on the pendulum, with some options changed by their flat names.

    Behind the name of an agent there may be another word, for other settings of the same agent.
    """
    name = agent.partition(" ")[0]
    return from_settings({"environment": "pendulum", "agent": name, **SETTINGS[agent], **RUN, **options})
