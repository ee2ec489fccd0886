"""What each command of the command line does."""

from ctmle.commands import envs, evaluate, train
from ctmle.commands.dispatch import run

__all__ = ["envs", "evaluate", "run", "train"]
