"""Settings of a training run."""

from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args

import tyro

from ctmle.config.ct_mle import CTMLEConfig
from ctmle.config.enode import ENODEConfig
from ctmle.config.sac_tacos import SacTacosConfig

EnvironmentName = Literal["pendulum", "cartpole", "cartpole-swingup", "acrobot", "linear-quadratic"]
AgentName = Literal["ct-mle", "enode", "sac-tacos"]
SuccessRule = Literal["mean", "every"]
PresetName = Literal["default", "paper", "quick", "convergence"]

Config = TypeVar("Config")

if TYPE_CHECKING:
    Learner = Any  # which agent's settings they are is known only at run time
else:
    Learner = CTMLEConfig | ENODEConfig | SacTacosConfig

LEARNERS: dict[str, type] = {"ct-mle": CTMLEConfig, "enode": ENODEConfig, "sac-tacos": SacTacosConfig}
"""The settings of each agent."""

ENVIRONMENT_NAMES: tuple[str, ...] = get_args(EnvironmentName)
AGENT_NAMES: tuple[str, ...] = get_args(AgentName)
PRESET_NAMES: tuple[str, ...] = get_args(PresetName)


@dataclass(frozen=True)
class EvaluationConfig:
    """How a policy is judged."""

    test_trajectories: int = 10
    """[N_test] Test trajectories at the end of every episode."""
    warm_up: float = 3.0
    """[T_warm-up] Seconds of each test trajectory before the reward counts."""
    test_seconds: float | None = None
    """Length of each test trajectory; none: the horizon."""
    rule: SuccessRule = "mean"
    """What must reach `success`: the mean of all rewards after the warm-up, or every single one (ENODE's rule)."""
    success: float = 0.9
    """Reward that counts as success."""
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
    """[Delta] Seconds between two looks of the grid (sac-tacos decides by itself when to look)."""
    grid: Literal["equidistant", "uniform", "exponential"] = "equidistant"
    """Gaps of the grid: all equal, or random with that mean (uniform up to twice of it, or exponential)."""
    random_looks: bool = True
    """Take one more look per gap at a uniformly random time."""
    episodes: int = 5
    """[N] Episodes after the initial data."""
    test_every: int = 1
    """Episodes from one test to the next. Between tests an agent that can does everything in one compiled loop."""
    seed: int = 0
    """Seed of everything random in the run."""
    stop_at_success: bool = False
    """End the run after the first episode whose test score is a success."""
    threads: int | None = None
    """Threads to compute with; none: as many as there are cores."""
    checkpoint_every: int = 5
    """Chunks of updates between two checkpoints inside an episode; each episode ends with one in any case."""
    checkpoints_kept: int = 2
    """How many of the newest checkpoints stay on the disk."""
    config: str | None = None
    """File of settings to start from (.toml, .json, or the config.json of an earlier run); those given here win."""
    out: str | None = None
    """Run folder; none: runs/ENVIRONMENT-AGENT-sigma-seed with a number if that exists."""
    learner: Annotated[Learner, tyro.conf.arg(name=""), tyro.conf.AvoidSubcommands] = field(default_factory=CTMLEConfig)
    evaluation: Annotated[EvaluationConfig, tyro.conf.arg(name="")] = field(default_factory=EvaluationConfig)

    @property
    def looking(self) -> str:
        """When this run looks, in words."""
        if isinstance(self.learner, SacTacosConfig):
            return f"switch cost {self.learner.switch_cost:g}"
        return f"gap {self.gap:g} s" + ("" if self.grid == "equidistant" else f" ({self.grid})")


def config_from_json(content: dict[str, Any]) -> TrainConfig:
    """The settings in a run folder's config.json. Raises ValueError for a key that is not a setting."""
    content = dict(content)
    agent = content.get("agent", "ct-mle")
    if agent not in LEARNERS:
        raise ValueError(f"there is no agent '{agent}': there are {', '.join(LEARNERS)}")
    learner = _from_keys(LEARNERS[agent], content.pop("learner", {}))
    evaluation = _from_keys(EvaluationConfig, content.pop("evaluation", {}))
    return replace(_from_keys(TrainConfig, content), learner=learner, evaluation=evaluation)


def _from_keys(kind: type[Config], content: dict[str, Any]) -> Config:
    known = {f.name for f in fields(kind)}  # pyright: ignore[reportArgumentType]
    for key in content:
        if key not in known:
            near = get_close_matches(key, known, n=1)
            raise ValueError(f"there is no setting '{key}'" + (f": did you mean '{near[0]}'?" if near else ""))
    return kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in content.items()})
