"""Finds what a command does by its type."""

from functools import singledispatch
from importlib import import_module
from typing import Any

from ctmle.config import (
    CompareCommand,
    EnvsCommand,
    EvaluateCommand,
    ExactConfig,
    OracleCommand,
    ReproduceCommand,
    ResumeCommand,
    SweepCommand,
    TheoryCommand,
    TrainConfig,
)

MODULES: dict[type, str] = {
    TrainConfig: "train",
    ResumeCommand: "train",
    EvaluateCommand: "evaluate",
    OracleCommand: "evaluate",
    CompareCommand: "compare",
    SweepCommand: "sweep",
    ReproduceCommand: "reproduce",
    EnvsCommand: "envs",
    ExactConfig: "exact",
    TheoryCommand: "variance",  # which stands on `theory`
}
"""Where each command lives. Its module is loaded when it is asked for: most of them load JAX."""


@singledispatch
def run(command: Any) -> None:
    """A command whose module is not loaded yet: load it, which registers what it does, and do that."""
    import_module(f"ctmle.lab.cli.{MODULES[type(command)]}")
    run.dispatch(type(command))(command)
