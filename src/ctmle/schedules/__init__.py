"""When we look: measurement schedules."""

from ctmle.schedules.base import Advice as Advice, DecidedLooks as DecidedLooks, Looks as Looks, Schedule as Schedule
from ctmle.schedules.grid import Equidistant as Equidistant, Grid as Grid
from ctmle.schedules.random_gaps import ExponentialGaps as ExponentialGaps, UniformGaps as UniformGaps
