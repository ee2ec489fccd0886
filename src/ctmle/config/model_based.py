"""Settings that every agent with a learned model has."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class ModelBasedConfig:
    """Data, ensemble and actor-critic. Symbols in brackets are those of the paper's tables."""

    initial_trajectories: int = 3
    """[N_0] Trajectories under smooth random controls before the first episode."""
    trajectories_per_episode: int = 1
    """[N_inc] Trajectories of the policy added to the data after each episode."""
    exploring_trajectories: int = 0
    """More trajectories in each episode, driven by the policy plus a smooth random signal. They come first."""
    exploring_strength: float = 0.5
    """Size of that signal, as a share of the largest control."""
    trajectory_seconds: float | None = None
    """[H] Length of each training trajectory; none: the environment's horizon."""

    ensemble: int = 10
    """Members of the dynamics ensemble."""
    dynamics_hidden: tuple[int, ...] = (200, 200, 200)
    """Hidden widths of each member's drift network (ELU)."""
    dynamics_batch: int = 5
    """[B_dyn] Subsequences per dynamics update."""
    dynamics_length: int = 5
    """[H_dyn] Gaps in each subsequence."""
    dynamics_updates: int = 500
    """[N_dyn] Dynamics updates per episode."""
    dynamics_rate: float = 2e-3
    """[alpha_model] Learning rate of the drift at the start of each dynamics phase."""
    dynamics_final_rate: float = 0.1
    """The rate at the end of the phase as a share of the one at its start (cosine in between)."""
    weight_decay: float = 1e-4
    """Decoupled weight decay of AdamW."""
    solver: Literal["rk3", "rk4", "dopri5", "adaptive"] = "rk3"
    """Integrator of the drift between looks: steps by methods of order 3, 4 or 5 (Dormand-Prince, the papers'), or
    Dormand-Prince with steps as short as its errors ask for (for stiff systems; several times slower)."""
    longest_step: float = 0.125
    """Longest step of the integrator in seconds; the adaptive one chooses its own."""

    policy_hidden: tuple[int, ...] = (200, 200)
    """Hidden widths of the policy (ReLU, tanh output) and of the critic (tanh)."""
    policy_updates: int = 250
    """[N_pol] Policy updates per episode."""
    policy_horizon: float = 1.0
    """[H_pol] Length of imagined trajectories in seconds."""
    policy_step: float = 0.1
    """Step of imagined trajectories in seconds."""
    discount_time: float = 5.0
    """[tau] The discount is exp(-t / tau), tau in seconds."""
    particles: int = 100
    """Imagined trajectories per policy update, spread over the ensemble."""
    policy_rate: float = 3e-3
    """Learning rate of the policy at the start of each policy phase."""
    policy_final_rate: float = 0.1
    """The rate at the end of the phase as a share of the one at its start (cosine in between)."""
    critic_rate: float = 1e-3
    """Learning rate of the critic."""
    critic_steps: int = 10
    """Critic steps per policy update."""
    critic_batch: int = 256
    """Imagined points per critic step."""
    target_every: int = 25
    """Policy updates between two refreshes of the target critic."""
    gradient_clip: float = 10.0
    """Largest norm of a policy or critic gradient."""
    bootstrap_episodes: int = 3
    """Episodes over which the critic's weight in the policy objective grows to 1."""
    reset_starts: float = 0.2
    """Share of imagined trajectories that start where episodes start."""
    box_starts: float = 0.5
    """Share that start anywhere in the box spanned by the data."""

    chunk: int = 50
    """Updates per compiled call: how often progress is shown."""
