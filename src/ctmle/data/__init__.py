"""Trajectories, their drives and the growing dataset: what was seen."""

from ctmle.data.batches import Sequences as Sequences
from ctmle.data.batches import Transitions as Transitions
from ctmle.data.batches import sample_sequences as sample_sequences
from ctmle.data.batches import sample_transitions as sample_transitions
from ctmle.data.dataset import Dataset as Dataset
from ctmle.data.drive import ClosedLoop as ClosedLoop
from ctmle.data.drive import Drive as Drive
from ctmle.data.drive import Drives as Drives
from ctmle.data.drive import Recorded as Recorded
from ctmle.data.trajectory import Trajectory as Trajectory
