"""Models of SDEs: what a learner initialises, measures and trains."""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ctmle.data.dataset import Dataset
from ctmle.envs.base import Env, Spec
from ctmle.settings import Part
from ctmle.training.devices import SplitByMember

Observed = Float[Array, "*batch observed"]
Noise = Observed | Float[Array, "*batch observed observed"]
Controls = Float[Array, "*batch control"]
Particles = Float[Array, "members particles observed"]
ParticleNoise = Particles | Float[Array, "members particles observed observed"]
ParticleControls = Float[Array, "members particles control"]


class SDE(eqx.Module):
    """A drift and a diffusion over batches of observed states and controls.

    The diffusion is the matrix g, with one axis more than the states, or the diagonal of g.
    """

    @abstractmethod
    def drift(self, y: Observed, u: Controls) -> Observed: ...

    @abstractmethod
    def diffusion(self, y: Observed, u: Controls) -> Noise: ...


class Members(eqx.Module):
    """One or several SDEs over particles, each particle belonging to one member."""

    @property
    @abstractmethod
    def members(self) -> int: ...

    @property
    @abstractmethod
    def noisy(self) -> bool:
        """True for SDEs, False for ODEs."""

    @abstractmethod
    def member(self, number: int) -> SDE:
        """Return one member by itself."""

    @abstractmethod
    def drift(self, y: Particles, u: ParticleControls) -> Particles: ...

    @abstractmethod
    def diffusion(self, y: Particles, u: ParticleControls) -> ParticleNoise: ...


class Ensemble(Members, SplitByMember):
    """Learned SDEs stacked into one: every array of `stacked` has a leading member axis.

    Each particle follows its own member: the ensemble's expectation at the cost of one member.
    """

    stacked: Any
    ode: bool = eqx.field(static=True, default=False)

    @property
    def noisy(self) -> bool:
        return not self.ode

    @property
    def members(self) -> int:
        return len(jax.tree.leaves(eqx.filter(self.stacked, eqx.is_array))[0])

    def member(self, number: int) -> Any:
        return jax.tree.map(lambda leaf: leaf[number] if eqx.is_array(leaf) else leaf, self.stacked)

    def drift(self, y: Particles, u: ParticleControls) -> Particles:
        return eqx.filter_vmap(lambda member, y, u: member.drift(y, u))(self.stacked, y, u)

    def diffusion(self, y: Particles, u: ParticleControls) -> ParticleNoise:
        return eqx.filter_vmap(lambda member, y, u: member.diffusion(y, u))(self.stacked, y, u)


class EnvSDE(SDE):
    """The true SDE of an environment over batches."""

    env: Env

    def drift(self, y: Observed, u: Controls) -> Observed:
        return jnp.vectorize(self.env.drift, signature="(x),(u)->(x)")(y, u)

    def diffusion(self, y: Observed, u: Controls) -> Noise:
        shape = "(x)" if self.env.diffusion(y[(0,) * (y.ndim - 1)], u[(0,) * (u.ndim - 1)]).ndim == 1 else "(x,x)"
        return jnp.vectorize(self.env.diffusion, signature=f"(x),(u)->{shape}")(y, u)


class TrueSDE(Members):
    """The true SDE of an environment, for the oracle."""

    env: Env

    @property
    def members(self) -> int:
        return 1

    @property
    def noisy(self) -> bool:
        return True

    def member(self, number: int) -> EnvSDE:
        return EnvSDE(self.env)

    def drift(self, y: Particles, u: ParticleControls) -> Particles:
        return jax.vmap(jax.vmap(self.env.drift))(y, u)

    def diffusion(self, y: Particles, u: ParticleControls) -> ParticleNoise:
        return jax.vmap(jax.vmap(self.env.diffusion))(y, u)


class Model(Part):
    """A family of SDEs: how one is initialised, which of its numbers are measured and which are trained."""

    @abstractmethod
    def init(self, spec: Spec, key: PRNGKeyArray, members: int) -> Ensemble:
        """Return an ensemble before any data was seen."""

    @abstractmethod
    def measure(self, ensemble: Ensemble, spec: Spec, data: Dataset) -> Ensemble:
        """Set what is measured from the first data, such as the scales that networks work in."""

    @abstractmethod
    def rates(self, ensemble: Ensemble) -> Ensemble:
        """Return a factor on the learning rate for every array; 0 means that it is not trained."""


def trained_part(model: Model, ensemble: Ensemble) -> tuple[Ensemble, Ensemble]:
    """Split an ensemble into the arrays that are trained and the rest: no gradient or optimiser sees the rest."""
    return eqx.partition(ensemble, jax.tree.map(lambda rate: rate != 0, model.rates(ensemble)))


def at_rates(model: Model, ensemble: Ensemble, updates: Ensemble) -> Ensemble:
    """Multiply the optimiser's updates of the trained part by the model's rates."""
    rates = eqx.filter(model.rates(ensemble), lambda rate: rate != 0)
    return jax.tree.map(lambda rate, update: update if rate == 1 else rate * update, rates, updates)
