"""Where the settings of a run start from."""

from dataclasses import replace

from ctmle.config.ct_mle import CTMLEConfig
from ctmle.config.enode import ENODEConfig
from ctmle.config.sac_tacos import SacTacosConfig
from ctmle.config.train import LEARNERS, EvaluationConfig, TrainConfig


def preset(environment: str, name: str, agent: str = "ct-mle") -> TrainConfig:
    """The defaults of a preset for an environment and an agent.

    `default` is what worked best in our trials (docs/results.md); `paper` takes the papers' tables literally; `quick`
    shows within a minute that everything runs, and does not always learn; `convergence` (sac-tacos) goes on for many
    more episodes than a comparison would, to learn what the agent can come to.
    """
    start = TrainConfig(
        environment=environment,  # pyright: ignore[reportArgumentType]
        agent=agent,  # pyright: ignore[reportArgumentType]
        preset=name,  # pyright: ignore[reportArgumentType]
        learner=LEARNERS[agent](),
    )
    if environment == "linear-quadratic":
        start = replace(start, horizon=4.0, evaluation=EvaluationConfig(warm_up=1.0))
    if environment in ("acrobot", "cartpole-swingup"):
        start = replace(start, episodes=15)
    learner = start.learner
    if isinstance(learner, CTMLEConfig):
        return _ct_mle(start, learner)
    return _enode(start, learner) if isinstance(learner, ENODEConfig) else _sac_tacos(start, learner)


def _ct_mle(start: TrainConfig, learner: CTMLEConfig) -> TrainConfig:
    if start.environment == "cartpole":
        learner = replace(learner, longest_step=0.03125)
    if start.environment == "cartpole-swingup":
        learner = replace(learner, policy_updates=500)
    if start.preset == "paper":
        learner = replace(
            learner,
            trajectory_seconds=50.0,
            objective="score-matching",
            gap_weighted=False,
            control="hold",
            covariance="euler",
            solver="dopri5",
            longest_step=0.125,
            dynamics_final_rate=1.0,
        )
        return replace(start, observation="trig", learner=learner)
    if start.preset == "quick":
        learner = replace(
            learner,
            ensemble=5,
            dynamics_hidden=(64, 64),
            policy_hidden=(64, 64),
            dynamics_updates=300,
            policy_updates=150,
            particles=50,
        )
        return replace(start, episodes=2, learner=learner)
    return replace(start, learner=learner)


def _enode(start: TrainConfig, learner: ENODEConfig) -> TrainConfig:
    """Numbers of trajectories, and the `paper` preset, are those of the public code."""
    start = replace(start, gap=0.1, random_looks=False)
    if start.environment in ("cartpole", "cartpole-swingup"):
        learner = replace(learner, initial_trajectories=5, exploring_trajectories=2)
    if start.environment == "acrobot":
        learner = replace(learner, initial_trajectories=7, exploring_trajectories=3, longest_step=0.0625)
    if start.preset == "paper":
        learner = replace(
            learner,
            trajectory_seconds=5.0,
            noise="fixed",
            solver="dopri5",
            dynamics_final_rate=1.0,
            weight_decay=0.0,
            policy_horizon=2.0,
            policy_rate=1e-3,
            policy_final_rate=1.0,
            particles=500,
            target_every=100,
            bootstrap_episodes=5,
            reset_starts=0.0,
            box_starts=0.0,
        )
        return replace(start, observation="trig", learner=learner)
    if start.preset == "quick":
        learner = replace(
            learner,
            dynamics_hidden=(64, 64),
            policy_hidden=(64, 64),
            dynamics_updates=500,
            policy_updates=150,
            particles=50,
        )
        return replace(start, episodes=2, learner=learner)
    return replace(start, learner=learner)


def _sac_tacos(start: TrainConfig, learner: SacTacosConfig) -> TrainConfig:
    if start.preset == "paper":
        learner = replace(learner, target_rate=0.005, pessimism=1.0, actor_rate=3e-4, critic_rate=3e-4)
        learner = replace(learner, temperature_rate=3e-4, switch_cost=0.1)
        return replace(start, observation="trig", learner=learner)
    if start.preset == "quick":
        return replace(start, episodes=2, learner=replace(learner, updates_per_decision=2.0))
    if start.preset == "convergence":
        return replace(start, episodes=100, test_every=10)
    return start
