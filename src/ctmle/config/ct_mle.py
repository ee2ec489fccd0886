"""Settings of CT-MLE."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class CTMLEConfig:
    """Lagrangian CT-MLE. Symbols in brackets are those of the paper's tables."""

    initial_trajectories: int = 3
    """[N_0] Trajectories under smooth random controls before the first episode."""
    trajectories_per_episode: int = 1
    """[N_inc] Trajectories added to the data after each episode."""
    trajectory_seconds: float | None = None
    """[H] Length of each training trajectory; none: the environment's horizon."""

    ensemble: int = 10
    """Members of the dynamics ensemble."""
    dynamics_hidden: tuple[int, ...] = (200, 200, 200)
    """Hidden widths of each member's drift network (ELU)."""
    diffusion: Literal["constant", "state"] = "state"
    """Whether the learned diffusion depends on the state."""
    diffusion_floor: float = 0.01
    """Smallest diffusion that can be learned; it keeps the likelihood finite when sigma is 0."""
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
    diffusion_rate: float = 10.0
    """How many times faster the level of the diffusion learns than the drift."""
    weight_decay: float = 1e-4
    """Decoupled weight decay of AdamW."""
    objective: Literal["likelihood", "score-matching"] = "likelihood"
    """Fit by exact negative log-likelihood, or by sliced score matching as the paper does."""
    projections: int = 1
    """[M_proj] Rademacher projections per sample in score matching; 0 takes their expectation in closed form."""
    gap_weighted: bool = True
    """Weight score matching by the gap: the same minimiser, finite as gaps shrink. The paper has no weight."""
    chained: bool = False
    """With random looks, score grid look to random look to grid look instead of the paper's two likelihoods."""
    control: Literal["closed-loop", "hold"] = "closed-loop"
    """Control during a gap in the likelihood: the policy that acted, or its value at the gap's start (appendix, 2b)."""
    covariance: Literal["moments", "euler"] = "moments"
    """Covariance of a transition: linearised moments, or g^2 * gap (appendix, 2c)."""
    solver: Literal["rk4", "dopri5"] = "rk4"
    """Integrator of the transition mean: fixed-step Runge-Kutta, or adaptive Dormand-Prince (the paper's)."""
    longest_step: float = 0.125
    """Longest step of the fixed-step integrator in seconds."""

    optimism: bool = True
    """Lean the fit towards models in which the policy does well."""
    eta_base: float = 4.0
    """[eta_base] Base of the Lagrange multiplier eta_n = eta_base / n. Large: less optimism."""
    optimism_ratio: float = 10.0
    """[10:1] Size of the fitting term over that of the planning term at eta_base = 4; kappa_n adapts to keep it."""

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
