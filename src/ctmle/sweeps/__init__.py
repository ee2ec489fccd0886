"""What many runs are: plans of runs, engines that do them, their one-line results."""

from ctmle.sweeps.result import Result

__all__ = ["Result"]
