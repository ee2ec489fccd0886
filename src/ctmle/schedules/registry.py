"""Schedules by the name of their grid."""

from ctmle.schedules.base import Schedule
from ctmle.schedules.grid import Equidistant
from ctmle.schedules.random_gaps import ExponentialGaps, UniformGaps

GRIDS: dict[str, type[Equidistant] | type[UniformGaps] | type[ExponentialGaps]] = {
    "equidistant": Equidistant,
    "uniform": UniformGaps,
    "exponential": ExponentialGaps,
}


def make_schedule(grid: str, gap: float, random_looks: bool) -> Schedule:
    return GRIDS[grid](gap, random_looks)
