"""What each command of the command line does."""

from ctmle.commands import envs, evaluate, exact, theory, train, variance
from ctmle.commands.dispatch import run

__all__ = ["envs", "evaluate", "exact", "run", "theory", "train", "variance"]
