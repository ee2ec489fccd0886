"""Trajectories, their drives and the growing dataset: what was seen."""

from ctmle.data.batches import (
    Sequences as Sequences,
    Transitions as Transitions,
    sample_sequences as sample_sequences,
    sample_transitions as sample_transitions,
)
from ctmle.data.dataset import Dataset as Dataset
from ctmle.data.drive import ClosedLoop as ClosedLoop, Drive as Drive, Drives as Drives, Recorded as Recorded
from ctmle.data.trajectory import Trajectory as Trajectory, checked as checked
