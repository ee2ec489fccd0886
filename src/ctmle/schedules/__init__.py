"""When we look: measurement schedules."""

from ctmle.schedules.base import Looks, Schedule
from ctmle.schedules.grid import Equidistant, Grid

__all__ = ["Equidistant", "Grid", "Looks", "Schedule"]
