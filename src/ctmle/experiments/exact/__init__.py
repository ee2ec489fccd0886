"""Exact CT-MLE, played over seeds, noise levels and gaps."""

from ctmle.experiments.exact.play import Play, play, stack
from ctmle.experiments.exact.sweep import Outcome, sweep

__all__ = ["Outcome", "Play", "play", "stack", "sweep"]
