"""What is asked for: one frozen, typed, commented dataclass per thing. The command line derives from these.

No JAX in here, so that `ctmle --help` answers at once.
"""

from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from typing import Annotated, Any, Literal, TypeVar, get_args

import tyro

EnvironmentName = Literal["pendulum", "cartpole", "cartpole-swingup", "acrobot", "linear-quadratic"]
AgentName = Literal["ct-mle"]
PresetName = Literal["default", "paper", "quick"]

Config = TypeVar("Config")

ENVIRONMENT_NAMES: tuple[str, ...] = get_args(EnvironmentName)
PRESET_NAMES: tuple[str, ...] = get_args(PresetName)


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


@dataclass(frozen=True)
class EvaluationConfig:
    """How a policy is judged."""

    test_trajectories: int = 10
    """[N_test] Test trajectories at the end of every episode."""
    warm_up: float = 3.0
    """[T_warm-up] Seconds of each test trajectory before the reward counts."""
    success: float = 0.9
    """Mean reward after the warm-up that counts as success."""
    test_gap: float = 0.05
    """Seconds between the points at which the reward of a test trajectory is taken."""


@dataclass(frozen=True)
class TrainConfig:
    """Learn to control a system, and keep everything about it in a run folder.

    Settings of the algorithm are listed below with the preset's values; any of them can be given.
    """

    environment: tyro.conf.Positional[EnvironmentName] = "pendulum"
    """Which system to control (see `ctmle envs`)."""
    agent: AgentName = "ct-mle"
    """Which algorithm learns."""
    preset: PresetName = "default"
    """Where the settings below start from: what we found to work, the paper's tables, or a quick look."""
    sigma: float = 2.0
    """[sigma] Noise level; the diffusion is sigma * unit on every coordinate."""
    unit: float | None = None
    """Diffusion per sigma; none: the environment's own, such that sigma = 2 is hard but solvable."""
    horizon: float = 10.0
    """[T] Length of an episode and of each test trajectory, in seconds."""
    observation: Literal["angles", "trig"] = "angles"
    """What the agent sees: physical coordinates, or the paper's (cos, sin, velocity)."""
    uniform_start: bool = False
    """Pendulum only: start from a random angle and velocity instead of hanging."""
    bang_bang: bool = False
    """Cart-pole only: the paper's fixed force, of which the control gives the direction."""
    underactuated: bool = False
    """Acrobot only: torque on the second joint alone."""
    step: float = 0.01
    """Longest step of the simulated plant, in seconds."""
    gap: float = 0.125
    """[Delta] Seconds between two looks of the grid."""
    random_looks: bool = True
    """Take one more look per gap at a uniformly random time."""
    episodes: int = 5
    """[N] Episodes after the initial data."""
    seed: int = 0
    """Seed of everything random in the run."""
    stop_at_success: bool = False
    """End the run after the first episode whose test score is a success."""
    checkpoint_every: int = 5
    """Chunks of updates between two checkpoints inside an episode; each episode ends with one in any case."""
    checkpoints_kept: int = 2
    """How many of the newest checkpoints stay on the disk."""
    out: str | None = None
    """Run folder; none: runs/ENVIRONMENT-AGENT-sigma-seed with a number if that exists."""
    learner: Annotated[CTMLEConfig, tyro.conf.arg(name="")] = field(default_factory=CTMLEConfig)
    evaluation: Annotated[EvaluationConfig, tyro.conf.arg(name="")] = field(default_factory=EvaluationConfig)


@dataclass(frozen=True)
class ResumeCommand:
    """Go on with a run that was stopped or killed; it ends exactly as it would have without the stop."""

    run: tyro.conf.Positional[str]
    """Run folder, as `ctmle train` made it."""


@dataclass(frozen=True)
class EvaluateCommand:
    """Score a saved policy again. The same seed gives the same score to the last digit."""

    run: tyro.conf.Positional[str]
    """Run folder, as `ctmle train` made it."""
    trajectories: int | None = None
    """Test trajectories; none: as many as the run had."""
    which: Literal["final", "best", "random"] = "final"
    """The last policy; the one whose own training episode went best; or one of a random episode, as in the paper."""
    json: bool = False
    """Print one JSON object instead of a sentence."""


@dataclass(frozen=True)
class OracleCommand:
    """Improve a policy in the true SDE: the u* that regret is measured against.

    The same improver as in training, but nothing has to be learned about the system.
    """

    environment: tyro.conf.Positional[EnvironmentName]
    """Which system to control (see `ctmle envs`)."""
    sigma: float = 2.0
    """[sigma] Noise level; the diffusion is sigma * unit on every coordinate."""
    unit: float | None = None
    """Diffusion per sigma; none: the environment's own."""
    episodes: int = 8
    """Rounds of policy updates; the best round by its test score counts."""
    policy_updates: int = 250
    """Policy updates per round."""
    trajectories: int = 40
    """Test trajectories per round."""
    seed: int = 0
    """Seed of everything random."""
    json: bool = False
    """Print one JSON object instead of lines."""


@dataclass(frozen=True)
class EnvsCommand:
    """List the environments: dimensions, controls, horizon, noise and reward."""


Command = TrainConfig | ResumeCommand | EvaluateCommand | OracleCommand | EnvsCommand


def preset(environment: str, name: str) -> TrainConfig:
    """The defaults of a preset for an environment.

    `default` is what worked best in our trials (docs/results.md); `paper` takes the paper's tables literally; `quick`
    shows within a minute that everything runs, and does not always learn.
    """
    start = TrainConfig(environment=environment, preset=name)  # pyright: ignore[reportArgumentType]
    if environment == "linear-quadratic":
        start = replace(start, horizon=4.0, evaluation=EvaluationConfig(warm_up=1.0))
    if environment == "acrobot":
        start = replace(start, episodes=15, learner=replace(start.learner, longest_step=0.0625))
    if environment == "cartpole-swingup":
        start = replace(start, episodes=15, learner=replace(start.learner, policy_updates=500))
    if name == "paper":
        learner = replace(
            start.learner,
            trajectory_seconds=50.0,
            objective="score-matching",
            gap_weighted=False,
            control="hold",
            covariance="euler",
            solver="dopri5",
            dynamics_final_rate=1.0,
        )
        return replace(start, observation="trig", learner=learner)
    if name == "quick":
        learner = replace(
            start.learner,
            ensemble=5,
            dynamics_hidden=(64, 64),
            policy_hidden=(64, 64),
            dynamics_updates=300,
            policy_updates=150,
            particles=50,
        )
        return replace(start, episodes=2, learner=learner)
    return start


def config_from_json(content: dict[str, Any]) -> TrainConfig:
    """The settings in a run folder's config.json. Raises ValueError for a key that is not a setting."""
    content = dict(content)
    learner = _from_keys(CTMLEConfig, content.pop("learner", {}))
    evaluation = _from_keys(EvaluationConfig, content.pop("evaluation", {}))
    return replace(_from_keys(TrainConfig, content), learner=learner, evaluation=evaluation)


def _from_keys(kind: type[Config], content: dict[str, Any]) -> Config:
    known = {f.name for f in fields(kind)}  # pyright: ignore[reportArgumentType]
    for key in content:
        if key not in known:
            near = get_close_matches(key, known, n=1)
            raise ValueError(f"there is no setting '{key}'" + (f": did you mean '{near[0]}'?" if near else ""))
    return kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in content.items()})
