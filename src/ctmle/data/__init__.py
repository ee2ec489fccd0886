"""What we saw: trajectories and the growing dataset."""

from ctmle.data.dataset import Dataset, Transitions, sample_transitions
from ctmle.data.trajectory import Trajectory, simulate, simulate_many

__all__ = ["Dataset", "Trajectory", "Transitions", "sample_transitions", "simulate", "simulate_many"]
