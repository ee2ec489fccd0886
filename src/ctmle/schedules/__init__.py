"""When we look: measurement schedules."""

from ctmle.schedules.base import DecidedLooks, Looks, Schedule
from ctmle.schedules.grid import Equidistant, Grid
from ctmle.schedules.random_gaps import ExponentialGaps, UniformGaps
from ctmle.schedules.registry import make_schedule

__all__ = [
    "DecidedLooks",
    "Equidistant",
    "ExponentialGaps",
    "Grid",
    "Looks",
    "Schedule",
    "UniformGaps",
    "make_schedule",
]
