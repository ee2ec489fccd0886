"""What we believe: learned SDEs, their transition laws, and how they are fitted."""

from ctmle.models.gaussian import Gaussian
from ctmle.models.known import KnownModel
from ctmle.models.laws import EulerCovariance, Law, LinearisedMoments
from ctmle.models.learner import Context, Learner
from ctmle.models.model import SDE, Ensemble, Members, Model, TrueSDE
from ctmle.models.networks import DiagonalNetwork, DriftNetwork, NetworkSDE
from ctmle.models.objectives import NegativeLogLikelihood, Objective, SlicedScoreMatching
from ctmle.models.ode_learner import ODELearner
from ctmle.models.optimism import Optimism
from ctmle.models.reward import KnownReward, Reward
from ctmle.models.sde_learner import SDELearner
from ctmle.models.survival import NeverEnds, Survival
from ctmle.models.world import Values, World

__all__ = [
    "SDE",
    "Context",
    "DiagonalNetwork",
    "DriftNetwork",
    "Ensemble",
    "EulerCovariance",
    "Gaussian",
    "KnownModel",
    "KnownReward",
    "Law",
    "Learner",
    "LinearisedMoments",
    "Members",
    "Model",
    "NegativeLogLikelihood",
    "NetworkSDE",
    "NeverEnds",
    "ODELearner",
    "Objective",
    "Optimism",
    "Reward",
    "SDELearner",
    "SlicedScoreMatching",
    "Survival",
    "TrueSDE",
    "Values",
    "World",
]
