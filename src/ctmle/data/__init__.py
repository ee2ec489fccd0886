"""What we saw: trajectories and the growing dataset."""

from ctmle.data.dataset import Dataset, Transitions, sample_transitions
from ctmle.data.holding import Decision, HeldPath, HoldingPolicy, hold_path, hold_paths
from ctmle.data.sequences import Sequences, sample_sequences
from ctmle.data.trajectory import Trajectory, every_tick, looked_at, looks_of, simulate, simulate_many

__all__ = [
    "Dataset",
    "Decision",
    "HeldPath",
    "HoldingPolicy",
    "Sequences",
    "Trajectory",
    "Transitions",
    "every_tick",
    "hold_path",
    "hold_paths",
    "looked_at",
    "looks_of",
    "sample_sequences",
    "sample_transitions",
    "simulate",
    "simulate_many",
]
