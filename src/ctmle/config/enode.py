"""Settings of ENODE."""

from dataclasses import dataclass
from typing import Literal

from ctmle.config.model_based import ModelBasedConfig


@dataclass(frozen=True)
class ENODEConfig(ModelBasedConfig):
    """Ensemble of neural ODEs with a continuous-time actor-critic (Yildiz et al., 2021)."""

    ensemble: int = 5
    """Members of the dynamics ensemble."""
    dynamics_batch: int = 20
    """Subsequences per dynamics update."""
    dynamics_length: int = 5
    """Looks in each subsequence: the first is where a prediction starts, the others are predicted."""
    dynamics_updates: int = 1250
    """Dynamics updates per round."""
    dynamics_rate: float = 1e-3
    """Learning rate of the drift at the start of each dynamics phase."""
    matching_updates: int = 500
    """Updates by gradient matching, once, before the first round: slopes between looks regressed by the drift."""
    matching_batch: int = 64
    """Subsequences per update by gradient matching."""
    matching_rate: float = 5e-3
    """Learning rate of gradient matching at its start."""
    control: Literal["interpolated", "closed-loop"] = "interpolated"
    """Control between looks in the likelihood: a smooth curve through the recorded ones, or the policy that acted."""
    noise: Literal["learned", "fixed"] = "learned"
    """Whether the observation noise of the likelihood is learned, per coordinate and member."""
    noise_level: float = 0.37
    """The observation noise, or where it starts."""
    noise_floor: float = 0.01
    """Smallest observation noise that can be learned."""
    noise_rate: float = 10.0
    """How many times faster the observation noise learns than the drift."""
