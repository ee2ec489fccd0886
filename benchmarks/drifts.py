"""Drifts of learned models beside the true one; for calibration.py and dimensions.py."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ctmle.envs import Env
from ctmle.models import Ensemble, Members, TrueSDE
from ctmle.models.basis_learner import BasisFit
from ctmle.models.world import Learner

Coordinates = Float[np.ndarray, " observed"]


@dataclass(frozen=True)
class Drifts:
    """Drifts at the same points: of the models that the data leaves possible, of their centre, and the true one."""

    possible: Float[np.ndarray, "models points observed"]
    centre: Float[np.ndarray, "points observed"]
    true: Float[np.ndarray, "points observed"]
    learned: tuple[int, ...]
    """Coordinates whose drift is not known beforehand."""

    @property
    def spread(self) -> Coordinates:
        """Standard deviation over models, root mean square over points."""
        return np.sqrt(np.mean(np.var(self.possible, axis=0, ddof=1), axis=0))

    @property
    def error(self) -> Coordinates:
        """Root mean square error of the centre."""
        return _root_mean_square(self.centre - self.true)

    @property
    def size(self) -> Coordinates:
        """Root mean square of the true drift."""
        return _root_mean_square(self.true)


def drifts_at(
    env: Env, learner: Learner, fit: Any, y: Float[Array, "*batch observed"], u: Float[Array, "*batch control"]
) -> Drifts:
    """Evaluate what a learner has fitted at observed states (in physical coordinates) and controls.

    The models of a basis are the samples of its posterior, and their centre is the posterior mean; those of an ensemble
    are its members, and their centre is the mean of their drifts.
    """
    y, u = y.reshape(-1, y.shape[-1]), u.reshape(-1, u.shape[-1])
    possible: Any = fit.samples if isinstance(fit, BasisFit) else learner.sde(fit)
    assert isinstance(possible, Ensemble)  # all learners but the oracle's
    found = _drift(possible, y, u)
    centre = _drift(fit.mean, y, u)[0] if isinstance(fit, BasisFit) else found.mean(axis=0)
    return Drifts(found, centre, _drift(TrueSDE(env), y, u)[0], possible.stacked.kinematics.learned)


def _drift(models: Members, y: Array, u: Array) -> np.ndarray:
    return np.asarray(_of_each(models, y, u), np.float64)


@eqx.filter_jit
def _of_each(models: Members, y: Array, u: Array) -> Array:
    return models.drift(*(jnp.broadcast_to(leaf, (models.members, *leaf.shape)) for leaf in (y, u)))


def _root_mean_square(values: np.ndarray) -> Coordinates:
    return np.sqrt(np.mean(values**2, axis=0))
