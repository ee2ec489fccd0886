"""How parts are trained: stages of gradient updates, one compiled loop, Adam, networks, devices."""

from ctmle.training.adam import Adam
from ctmle.training.failures import NotFinite
from ctmle.training.mlp import Mlp
from ctmle.training.updates import Outcome, Span, Stage, Step, Trainer, run_updates

__all__ = ["Adam", "Mlp", "NotFinite", "Outcome", "Span", "Stage", "Step", "Trainer", "run_updates"]
