"""What we believe: learned SDEs, their transition laws, and how they are fitted."""

from ctmle.models.basis_learner import BasisLearner as BasisLearner
from ctmle.models.belief import (
    Belief as Belief,
    ConfidenceSet as ConfidenceSet,
    MeanAndSamples as MeanAndSamples,
    OneSample as OneSample,
    Optimist as Optimist,
    Penalty as Penalty,
)
from ctmle.models.bridge import Bridge as Bridge
from ctmle.models.gaussian import Gaussian as Gaussian
from ctmle.models.laws import EulerCovariance as EulerCovariance, Gap as Gap, Law as Law
from ctmle.models.model import SDE as SDE, Ensemble as Ensemble, Members as Members, Model as Model, TrueSDE as TrueSDE
from ctmle.models.moments import LinearisedMoments as LinearisedMoments
from ctmle.models.networks import (
    DiagonalNetwork as DiagonalNetwork,
    DriftNetwork as DriftNetwork,
    NetworkSDE as NetworkSDE,
)
from ctmle.models.objectives import (
    NegativeLogLikelihood as NegativeLogLikelihood,
    Objective as Objective,
    SlicedScoreMatching as SlicedScoreMatching,
)
from ctmle.models.ode_learner import ODELearner as ODELearner
from ctmle.models.optimism import Optimism as Optimism
from ctmle.models.sde_learner import SDELearner as SDELearner
from ctmle.models.world import (
    Context as Context,
    KnownModel as KnownModel,
    KnownReward as KnownReward,
    Learner as Learner,
    NeverEnds as NeverEnds,
    Reward as Reward,
    Survival as Survival,
    Values as Values,
    World as World,
)
