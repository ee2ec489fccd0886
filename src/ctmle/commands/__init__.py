"""What each command of the command line does."""

from ctmle.commands import compare, envs, evaluate, train
from ctmle.commands.dispatch import run

__all__ = ["compare", "envs", "evaluate", "run", "train"]
