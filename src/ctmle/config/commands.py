"""Settings of the commands around training."""

from dataclasses import dataclass
from typing import Literal

import tyro

from ctmle.config.train import EnvironmentName, SuccessRule


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
    test_seconds: float | None = None
    """Length of each test trajectory; none: as long as the run's."""
    rule: SuccessRule | None = None
    """What must reach `success`, the mean reward after the warm-up or every single one; none: the run's rule."""
    success: float | None = None
    """Reward that counts as success; none: the run's."""
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
class CompareCommand:
    """Set runs side by side: a table and a picture of scores against episodes and against looks.

    Means and standard errors are over the seeds of each agent; each environment and noise level has its own panel.
    """

    runs: tyro.conf.Positional[tuple[str, ...]]
    """Run folders, as `ctmle train` made them."""
    out: str = "comparison.png"
    """Where the picture goes."""
    json: bool = False
    """Print one JSON list instead of a table."""


@dataclass(frozen=True)
class EnvsCommand:
    """List the environments: dimensions, controls, horizon, noise and reward."""
