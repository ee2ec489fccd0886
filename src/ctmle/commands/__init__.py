"""What each command of the command line does."""

from ctmle.commands import compare, envs, evaluate, exact, theory, train, variance
from ctmle.commands.dispatch import run

__all__ = ["compare", "envs", "evaluate", "exact", "run", "theory", "train", "variance"]
