"""What each command of the command line does."""

from ctmle.commands.dispatch import run

__all__ = ["run"]
