"""What is driven: plants, and the controllers that drive them."""

from ctmle.plants.base import Plant
from ctmle.plants.controller import Continuous, Controller, DecidesLooks, Decision, Holds, OnLooks
from ctmle.plants.simulate import simulate, simulate_many
from ctmle.plants.simulated import SimulatedSDE

__all__ = [
    "Continuous",
    "Controller",
    "DecidesLooks",
    "Decision",
    "Holds",
    "OnLooks",
    "Plant",
    "SimulatedSDE",
    "simulate",
    "simulate_many",
]
