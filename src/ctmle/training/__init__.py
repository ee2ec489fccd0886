"""How parts are trained: stages of gradient updates, one compiled loop, Adam, networks, devices."""

from ctmle.training.adam import Adam as Adam
from ctmle.training.failures import NotFinite as NotFinite
from ctmle.training.mlp import Mlp as Mlp
from ctmle.training.updates import (
    Outcome as Outcome,
    Span as Span,
    Stage as Stage,
    Step as Step,
    Trainer as Trainer,
    run_updates as run_updates,
)
