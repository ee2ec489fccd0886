"""Where the runs of every experiment start from: the paper's numbers of seeds and episodes, and the smallest size."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ctmle.config import EvaluationConfig, SacTacosConfig, TrainConfig, preset
from ctmle.config.reproduce import PAPER_ENVIRONMENTS, ReproduceCommand

SIGMA = 2.0
"""Of every experiment but that of the gaps."""
EPISODES = {"pendulum": 5, "cartpole": 15, "acrobot": 15}
"""After which the paper compares agents ("Performance is evaluated after ...")."""
LONG_EPISODES = {"pendulum": 15, "cartpole": 30, "acrobot": 25}
"""Of the paper's longest runs ("Each 15-episode Pendulum swing-up task ...")."""
PAPER_SEEDS = {"pendulum": 10, "cartpole": 5, "acrobot": 5}
"""Of the paper's figure of the gaps; it does not say how many its comparison has."""
SMOKE_EPISODES = 2
SMOKE_SEEDS = 2

SMOKE_LEARNER: dict[str, Any] = {
    "initial_trajectories": 2,
    "ensemble": 2,
    "dynamics_hidden": (16, 16),
    "policy_hidden": (16, 16),
    "dynamics_batch": 3,
    "dynamics_length": 3,
    "dynamics_updates": 6,
    "policy_updates": 6,
    "particles": 8,
    "critic_steps": 2,
    "critic_batch": 16,
    "chunk": 4,
}
SMOKE_TACOS: dict[str, Any] = {
    "initial_trajectories": 2,
    "max_hold": 10,
    "hidden": (8, 8),
    "batch": 8,
    "updates_per_decision": 0.5,
    "replay_capacity": 64,
    "chunk": 4,
}


def environments(command: ReproduceCommand, usual: Sequence[str] = PAPER_ENVIRONMENTS) -> tuple[str, ...]:
    """Those that were asked for; else the experiment's own, or the easiest alone where it only has to run."""
    return tuple(command.environments or (usual[:1] if command.size == "smoke" else usual))


def seeded(command: ReproduceCommand, config: TrainConfig, *, paper: int, small: int) -> list[TrainConfig]:
    """One run for each seed: as many as were asked for, or as the size has."""
    seeds = command.seeds or {"paper": paper, "small": small, "smoke": SMOKE_SEEDS}[command.size]
    return [replace(config, seed=seed) for seed in range(seeds)]


def start(command: ReproduceCommand, environment: str, agent: str, episodes: int, **changes: Any) -> TrainConfig:
    """The preset's settings for one agent on one system, made small where they only have to run."""
    config = replace(preset(environment, command.preset, agent), sigma=SIGMA, episodes=episodes)
    if command.size == "smoke":
        config = _smoke(config)
    return replace(config, **changes)


def _smoke(config: TrainConfig) -> TrainConfig:
    learner = config.learner
    if isinstance(learner, SacTacosConfig):
        learner = replace(learner, **SMOKE_TACOS)
    else:
        matching = {"matching_updates": 6, "matching_batch": 4} if config.agent == "enode" else {}
        learner = replace(learner, trajectory_seconds=None, **SMOKE_LEARNER, **matching)
    return replace(
        config,
        horizon=4.0,
        gap=0.25,
        step=0.05,
        episodes=SMOKE_EPISODES,
        learner=learner,
        evaluation=EvaluationConfig(test_trajectories=3),
    )
