"""What is asked for: one frozen, typed, commented dataclass per thing. The command line derives from these.

No JAX in here, so that `ctmle --help` answers at once.
"""

from dataclasses import dataclass
from typing import Literal

EnvironmentName = Literal["pendulum", "cartpole", "cartpole-swingup", "acrobot", "linear-quadratic"]
AgentName = Literal["ct-mle"]
PresetName = Literal["default", "paper", "quick"]


@dataclass(frozen=True)
class CTMLEConfig:
    """Lagrangian CT-MLE. Symbols in brackets are those of the paper's tables."""

    # --- data
    initial_trajectories: int = 3
    """Trajectories under smooth random controls before the first episode [N_0]."""
    trajectories_per_episode: int = 1
    """Trajectories added to the data after each episode [N_inc]."""
    trajectory_seconds: float | None = None
    """Length of each training trajectory [H]; none: the environment's horizon [T]."""

    # --- dynamics
    ensemble: int = 10
    """Members of the dynamics ensemble."""
    dynamics_hidden: tuple[int, ...] = (200, 200, 200)
    """Hidden widths of the drift network of each member."""
    diffusion: Literal["constant", "state"] = "constant"
    """Whether the learned diffusion depends on the state."""
    diffusion_floor: float = 0.01
    """Smallest diffusion that can be learned; keeps the likelihood finite when sigma is 0."""
    dynamics_batch: int = 5
    """Subsequences per dynamics update [B_dyn]."""
    dynamics_length: int = 5
    """Gaps in each subsequence [H_dyn]."""
    dynamics_updates: int = 500
    """Dynamics updates per episode [N_dyn]."""
    dynamics_rate: float = 1e-3
    """Learning rate of the drift at the start of each dynamics phase [alpha_model]."""
    dynamics_final_rate: float = 0.1
    """The rate at the end of the phase, as a share of the one at its start (cosine in between)."""
    diffusion_rate: float = 10.0
    """How many times faster the level of the diffusion learns than the drift."""
    weight_decay: float = 1e-4
    """Decoupled weight decay of AdamW."""
    objective: Literal["likelihood", "score-matching"] = "likelihood"
    """Fit by exact negative log-likelihood, or by sliced score matching as the paper does."""
    projections: int = 1
    """Rademacher projections per sample in score matching [M_proj]; 0 takes their expectation in closed form."""
    gap_weighted: bool = True
    """Weight score matching by the gap, which keeps it finite as gaps shrink; the paper has no weight."""
    chained: bool = False
    """With random looks: score grid look to random look to grid look, instead of the paper's two likelihoods."""
    control: Literal["closed-loop", "hold"] = "closed-loop"
    """Control during a gap in the likelihood: the policy that acted, or its value at the gap's start (appendix 2b)."""
    covariance: Literal["moments", "euler"] = "moments"
    """Covariance of a transition: linearised moments, or g^2 * gap (appendix 2c)."""
    solver: Literal["rk4", "dopri5"] = "rk4"
    """Integrator of the transition mean: fixed-step Runge-Kutta, or adaptive Dormand-Prince (the paper's)."""
    longest_step: float = 0.125
    """Longest step of the fixed-step integrator, in seconds."""

    # --- optimism
    optimism: bool = True
    """Lean the fit towards models in which the policy does well."""
    eta_base: float = 4.0
    """Base value of the Lagrange multiplier eta_n = eta_base / n [eta_base]."""
    optimism_ratio: float = 10.0
    """Size of the fitting term over that of the planning term at eta_base = 4 (kappa_n adapts to it)."""

    # --- policy
    policy_hidden: tuple[int, ...] = (200, 200)
    """Hidden widths of policy and critic."""
    policy_updates: int = 250
    """Policy updates per episode [N_pol]."""
    policy_horizon: float = 2.0
    """Length of imagined trajectories in seconds [H_pol]."""
    policy_step: float = 0.05
    """Step of imagined trajectories in seconds."""
    discount_time: float = 5.0
    """Discount exp(-t / tau), tau in seconds [tau]."""
    particles: int = 100
    """Imagined trajectories per policy update, spread over the ensemble."""
    policy_rate: float = 1e-3
    """Learning rate of the policy."""
    critic_rate: float = 1e-3
    """Learning rate of the critic."""
    critic_steps: int = 10
    """Critic steps per policy update."""
    critic_batch: int = 256
    """Imagined points per critic step."""
    target_every: int = 100
    """Policy updates between two refreshes of the target critic."""
    gradient_clip: float = 10.0
    """Largest norm of a policy or critic gradient."""
    bootstrap_episodes: int = 3
    """Episodes over which the critic's weight in the policy objective grows to 1."""
    reset_starts: float = 0.2
    """Share of imagined trajectories that start where episodes start."""
    box_starts: float = 0.2
    """Share that start anywhere in the box spanned by the data."""

    chunk: int = 50
    """Updates per compiled call: how often progress is shown."""
