"""In which of the models that the data leaves possible policies are improved: with doubt, or with optimism."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ctmle.models.basis import GIVEN, BasisSDE, with_weights
from ctmle.models.evidence import Posterior
from ctmle.models.model import Ensemble
from ctmle.registry import BELIEFS, Registry
from ctmle.settings import NonNegative, OpenShare, Part, Positive, Share

Weights = Float[Array, "learned functions"]
Drawn = Float[Array, "members learned functions"]

CONFIDENCE = 0.05
"""[delta] Probability with which the truth may lie outside a confidence set."""


class Optimist(eqx.Module):
    """The models of a confidence set, among which an improver looks for the one that its policy does best in.

    A point z stands for the weights `mean + root z`. Its log posterior density is |z|^2 / 2 below the largest one, so
    the set {log density >= maximum - beta} is the ball of radius sqrt(2 beta).
    """

    estimate: Ensemble
    """The SDE of z = 0."""
    mean: Weights
    root: Float[Array, "learned functions functions"]
    radius: Float[Array, ""]
    price: Float[Array, ""]
    """What a nat of log density costs, in mean reward."""

    @property
    def start(self) -> Weights:
        return jnp.zeros_like(self.mean)

    def sde(self, point: Weights, members: int) -> Ensemble:
        """Return the SDE of a point, as so many equal members."""
        weights = self.mean + jnp.einsum("lfg,lg->lf", self.root, point)
        estimate: BasisSDE = self.estimate.member(0)
        given = {name: getattr(estimate, name) for name in GIVEN}
        copies = jnp.broadcast_to(weights, (members, *weights.shape))
        return Ensemble(with_weights(copies, given, estimate.observation, estimate.kinematics))

    def cost(self, point: Weights) -> Float[Array, ""]:
        return self.price * 0.5 * jnp.sum(point**2)

    def moved(self, point: Weights, direction: Weights, share: Float[Array, ""] | float) -> Weights:
        """Go a share of the radius in some direction, and back into the set."""
        point = point + share * self.radius * direction / jnp.maximum(_norm(direction), 1e-12)
        return point * jnp.minimum(1.0, self.radius / jnp.maximum(_norm(point), 1e-12))


class Belief(Part):
    """Chooses models from a posterior."""

    choices: ClassVar[Registry] = BELIEFS
    optimistic: ClassVar[bool] = False
    """True if the improver chooses the model, within `radius`."""
    judges_in_samples: ClassVar[bool] = False
    """True if policies are judged in posterior samples, False if in the models that they were improved in."""

    def members(self, samples: int) -> int:
        """Return the number of models if so many were drawn."""
        return samples

    @abstractmethod
    def weights(self, mean: Weights, drawn: Drawn) -> Drawn:
        """Return the weights of the models, given the posterior mean and samples."""

    def radius(self, found: Posterior, prior: Weights, gaps: int, episode: int) -> float:
        """Return the radius of the confidence set."""
        return 0.0

    @property
    def nat(self) -> float:
        """What a nat of log density costs an optimist, in mean reward."""
        return 0.0


@dataclass(frozen=True)
class MeanAndSamples(Belief):
    """The posterior mean, and samples for some of the trajectories: caution where the data leaves much open."""

    doubt: Share = 0.25
    """Share of the trajectories that policies are improved on in posterior samples; the others are in its mean."""

    judges_in_samples = True

    def members(self, samples: int) -> int:
        return self._doubtful(samples) + self._sure(samples)

    def weights(self, mean: Weights, drawn: Drawn) -> Drawn:
        sure = jnp.repeat(mean[None], self._sure(len(drawn)), axis=0)
        return jnp.concatenate([sure, drawn[: self._doubtful(len(drawn))]])

    def _doubtful(self, samples: int) -> int:
        """Posterior samples among the models."""
        return round(self.doubt * samples)

    def _sure(self, samples: int) -> int:
        """How often the posterior mean is among them: once if it is alone."""
        return 1 if self._doubtful(samples) == 0 else samples - self._doubtful(samples)


@dataclass(frozen=True)
class OneSample(Belief):
    """One posterior sample, another one in each episode: posterior sampling."""

    def weights(self, mean: Weights, drawn: Drawn) -> Drawn:
        return jnp.broadcast_to(drawn[:1], drawn.shape)


@dataclass(frozen=True)
class ConfidenceSet(Belief):
    """The model of a confidence set that the policy does best in (Algorithm 1): policy and model ascend together."""

    beta: NonNegative | Literal["ville", "theory"] = "ville"
    """[beta] How far below its maximum the log-likelihood may be: Ville's bound, the theorem's, or a number of nats."""
    delta: OpenShare = CONFIDENCE
    """[delta] Probability with which the truth may lie outside the set."""

    optimistic = True

    def weights(self, mean: Weights, drawn: Drawn) -> Drawn:
        return jnp.broadcast_to(mean, drawn.shape)

    def radius(self, found: Posterior, prior: Weights, gaps: int, episode: int) -> float:
        if self.beta == "ville":
            beta = ville_beta(found, prior, self.delta)
        elif self.beta == "theory":
            beta = theory_beta(found, gaps, episode, self.delta)
        else:
            beta = self.beta
        return float(np.sqrt(2 * float(beta)))


@dataclass(frozen=True)
class Penalty(ConfidenceSet):
    """The Lagrangian form of the same (Algorithm 3): log density is paid for in reward, inside the set."""

    price: Positive = 0.01
    """[1 / eta] What a nat of log density costs, in mean reward."""

    @property
    def nat(self) -> float:
        return self.price


def ville_beta(found: Posterior, prior: Weights, delta: float) -> float:
    """Return a radius at which the truth is in the set with probability 1 - delta, at all times.

    By Ville's inequality for the ratio of evidence and likelihood,  log p(data | truth) >= log evidence - log(1 /
    delta). In terms of the posterior that is  |z|^2 / 2 <= log(1 / delta) + log det(prior / posterior) / 2 + |truth /
    prior|^2 / 2. The truth in the last term is not known: the posterior's expectation stands for it.
    """
    scale = np.asarray(prior, float)
    learned = np.sum(np.log(scale / np.diagonal(np.asarray(found.root, float), axis1=-2, axis2=-1)))
    expected = np.sum((np.asarray(found.mean) / scale) ** 2) + scale.size - float(jnp.sum(found.free))
    return float(np.log(1 / delta) + learned + 0.5 * expected)


def theory_beta(found: Posterior, gaps: int, episode: int, delta: float) -> float:
    """Return 5 log(N C / delta), with the bracketing number C = (3 m)^d of a class with as many dimensions d as weights
    that the data determines, at 1 / (3 m), m the number of gaps."""
    return float(5 * (np.log(episode / delta) + float(jnp.sum(found.free)) * np.log(3 * gaps)))


def _norm(vector: Array) -> Float[Array, ""]:
    return jnp.sqrt(jnp.sum(vector**2))
