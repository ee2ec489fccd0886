"""Settings small enough to train in a test."""

from dataclasses import replace

from ctmle.config import CTMLEConfig, ENODEConfig, EvaluationConfig, SacTacosConfig, TrainConfig

LEARNER = CTMLEConfig(
    initial_trajectories=2,
    ensemble=2,
    dynamics_hidden=(16, 16),
    policy_hidden=(16, 16),
    dynamics_batch=3,
    dynamics_length=3,
    dynamics_updates=6,
    policy_updates=6,
    particles=8,
    critic_steps=2,
    critic_batch=16,
    chunk=4,  # does not divide the updates: the last chunk of a phase is shorter
)

ODE = ENODEConfig(
    initial_trajectories=2,
    exploring_trajectories=1,
    ensemble=2,
    dynamics_hidden=(16, 16),
    policy_hidden=(16, 16),
    dynamics_batch=3,
    dynamics_length=4,
    dynamics_updates=6,
    matching_updates=6,
    matching_batch=4,
    policy_updates=6,
    particles=8,
    critic_steps=2,
    critic_batch=16,
    chunk=4,
)

TACOS = SacTacosConfig(
    initial_trajectories=2,
    max_hold=10,
    hidden=(8, 8),
    batch=8,
    updates_per_decision=0.5,
    replay_capacity=64,
    chunk=4,
)

RUN = TrainConfig(
    environment="pendulum",
    horizon=4.0,
    gap=0.125,
    step=0.05,
    episodes=2,
    learner=LEARNER,
    evaluation=EvaluationConfig(test_trajectories=3),
)


def run_config(**changes) -> TrainConfig:
    return replace(RUN, **changes)
