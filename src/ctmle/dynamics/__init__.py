"""What we believe: learned SDEs, their transition laws, and how they are fitted."""

from ctmle.dynamics.descent import Descent
from ctmle.dynamics.fit import Belief, Fit, fit_updates
from ctmle.dynamics.gaussian import Gaussian
from ctmle.dynamics.mlp import Mlp
from ctmle.dynamics.model import SDE, Dynamics, init_dynamics, init_ensemble
from ctmle.dynamics.objectives import (
    NegativeLogLikelihood,
    Objective,
    SlicedScoreMatching,
    gaussian_score_matching,
    sliced_score_matching,
)
from ctmle.dynamics.ode_fit import OdeBelief, OdeFit, ode_updates
from ctmle.dynamics.prediction import MultiStep, Prediction, Slopes
from ctmle.dynamics.transition import TransitionLaw

__all__ = [
    "SDE",
    "Belief",
    "Descent",
    "Dynamics",
    "Fit",
    "Gaussian",
    "Mlp",
    "MultiStep",
    "NegativeLogLikelihood",
    "Objective",
    "OdeBelief",
    "OdeFit",
    "Prediction",
    "SlicedScoreMatching",
    "Slopes",
    "TransitionLaw",
    "fit_updates",
    "gaussian_score_matching",
    "init_dynamics",
    "init_ensemble",
    "ode_updates",
    "sliced_score_matching",
]
