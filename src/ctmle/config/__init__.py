"""What is asked for: one frozen, typed, commented dataclass per thing. The command line derives from these.

No JAX in here, so that `ctmle --help` answers at once.
"""

from ctmle.config.commands import CompareCommand, EnvsCommand, EvaluateCommand, OracleCommand, ResumeCommand
from ctmle.config.ct_mle import CTMLEConfig
from ctmle.config.enode import ENODEConfig
from ctmle.config.exact import ExactConfig
from ctmle.config.model_based import ModelBasedConfig
from ctmle.config.presets import preset
from ctmle.config.reproduce import ReproduceCommand
from ctmle.config.sac_tacos import SacTacosConfig
from ctmle.config.sweep import HowToRun, SweepCommand
from ctmle.config.theory import TheoryCommand
from ctmle.config.train import (
    AGENT_NAMES,
    ENVIRONMENT_NAMES,
    LEARNERS,
    PRESET_NAMES,
    EvaluationConfig,
    SuccessRule,
    TrainConfig,
    config_from_json,
)

COMMANDS: dict[str, type] = {
    "train": TrainConfig,
    "resume": ResumeCommand,
    "evaluate": EvaluateCommand,
    "compare": CompareCommand,
    "sweep": SweepCommand,
    "reproduce": ReproduceCommand,
    "oracle": OracleCommand,
    "envs": EnvsCommand,
    "exact": ExactConfig,
    "theory": TheoryCommand,
}
"""What can be asked of the command line, by its first word."""

__all__ = [
    "AGENT_NAMES",
    "COMMANDS",
    "ENVIRONMENT_NAMES",
    "LEARNERS",
    "PRESET_NAMES",
    "CTMLEConfig",
    "CompareCommand",
    "ENODEConfig",
    "EnvsCommand",
    "EvaluateCommand",
    "EvaluationConfig",
    "ExactConfig",
    "HowToRun",
    "ModelBasedConfig",
    "OracleCommand",
    "ReproduceCommand",
    "ResumeCommand",
    "SacTacosConfig",
    "SuccessRule",
    "SweepCommand",
    "TheoryCommand",
    "TrainConfig",
    "config_from_json",
    "preset",
]
