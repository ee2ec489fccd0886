"""When we look: measurement schedules."""

from ctmle.schedules.base import DecidedLooks, Looks, Schedule
from ctmle.schedules.grid import Equidistant, Grid

__all__ = ["DecidedLooks", "Equidistant", "Grid", "Looks", "Schedule"]
