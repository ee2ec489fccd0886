"""When we look: measurement schedules."""

from ctmle.schedules.base import Advice, DecidedLooks, Looks, NoAdvice, Schedule
from ctmle.schedules.grid import Equidistant, Grid
from ctmle.schedules.random_gaps import ExponentialGaps, UniformGaps

__all__ = [
    "Advice",
    "DecidedLooks",
    "Equidistant",
    "ExponentialGaps",
    "Grid",
    "Looks",
    "NoAdvice",
    "Schedule",
    "UniformGaps",
]
