"""What is driven: plants, and the controllers that drive them."""

from ctmle.plants.base import (
    Continuous as Continuous,
    Controller as Controller,
    DecidesLooks as DecidesLooks,
    Decision as Decision,
    Holds as Holds,
    OnLooks as OnLooks,
    Plant as Plant,
)
from ctmle.plants.simulated import SimulatedSDE as SimulatedSDE, simulate as simulate, simulate_many as simulate_many
