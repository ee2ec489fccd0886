"""What each command of the command line does."""

from ctmle.lab.cli.dispatch import run

__all__ = ["run"]
