"""Trajectories, their drives and the growing dataset: what was seen."""

from ctmle.data.dataset import Dataset, Transitions, sample_transitions
from ctmle.data.drive import ClosedLoop, Drive, Recorded
from ctmle.data.sequences import Sequences, sample_sequences
from ctmle.data.trajectory import Trajectory

__all__ = [
    "ClosedLoop",
    "Dataset",
    "Drive",
    "Recorded",
    "Sequences",
    "Trajectory",
    "Transitions",
    "sample_sequences",
    "sample_transitions",
]
