"""Exact CT-MLE, played over seeds, noise levels and gaps."""

from ctmle.theory.exact.play import Play, play, stack
from ctmle.theory.exact.sweep import Outcome, sweep

__all__ = ["Outcome", "Play", "play", "stack", "sweep"]
