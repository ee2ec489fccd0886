"""Finite classes of drift-diffusion pairs with a finite set of policies, which exact CT-MLE enumerates.

The functions at the end compute properties of a class under its truth.
"""

import math
from abc import abstractmethod
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray

from ctmle.theory.eluder import gaussian_hellinger2
from ctmle.theory.exact.linear import Bump, LinearLaw, total_variances, values
from ctmle.theory.variance import Smoothness
from ctmle.training.double import in_double

Point = Float[Array, " size"]
Points = Float[Array, "looks size"]
Scalar = Float[Array, ""]
Scalars = Float[Array, " looks"]
Index = Int[Array, ""]

LogDensity = Callable[[Index, Index, Point, Point, Scalar], Scalar]
Draw = Callable[[PRNGKeyArray, Index, Point, Scalar], Point]
Reward = Callable[[Index, Points], Scalars]

SHORT = 1e-6
"""Seconds over which a transition law is differenced to get its drift matrix and diffusion."""


class FiniteClass(eqx.Module):
    """Numbered models (f, g) and policies u; one of the models is the truth."""

    values: Float[Array, "models policies"]
    """R_{f,g}(u), at most 1."""
    variances: Float[Array, " policies"]
    """Var^u under the truth."""
    truth: Index
    start: Point
    horizon: float = eqx.field(static=True)

    @abstractmethod
    def log_likelihoods(self, policy: Index, x: Points, y: Points, gap: Scalars) -> Float[Array, " models"]:
        """Sum of log p_{f,g}(y_k | u, x_k, gap_k) over the looks k, for every model."""

    @abstractmethod
    def sample(self, key: PRNGKeyArray, policy: Index, x: Point, gap: Scalar) -> Point:
        """Draw x(t + gap) given x(t) = x under the truth."""

    @abstractmethod
    def rewards(self, policy: Index, x: Points) -> Scalars:
        """b(x, u(x)) at states."""

    @property
    def models(self) -> int:
        return self.values.shape[0]

    @property
    def policies(self) -> int:
        return self.values.shape[1]


class LinearClass(FiniteClass):
    """Linear closed loops. Models share laws: `which[policy, model]` is the variant of the policy's closed loop.

    Densities are computed once per variant and then indexed by model.
    """

    laws: LinearLaw
    which: Int[Array, "policies models"]
    reward: Bump

    def log_likelihoods(self, policy: Index, x: Points, y: Points, gap: Scalars) -> Float[Array, " models"]:
        law = self.laws[policy].transition(gap[:, None])(x[:, None])
        return jnp.sum(law.log_prob(y[:, None] - law.mean), axis=0)[self.which[policy]]

    def sample(self, key: PRNGKeyArray, policy: Index, x: Point, gap: Scalar) -> Point:
        return self.laws[policy, self.which[policy, self.truth]].transition(gap)(x).sample(key)

    def rewards(self, policy: Index, x: Points) -> Scalars:
        return self.reward(x)


@in_double
def linear_class(
    laws: LinearLaw, which: Int[np.ndarray, "models policies"], truth: int, reward: Bump, start: Float[np.ndarray, " n"]
) -> LinearClass:
    """Build a class from its table of laws [policies, variants] and compute values and total variances."""
    _check_truth(truth, which.shape[0])
    policies, origin = np.arange(which.shape[1]), jnp.asarray(start, float)
    true_laws = laws[(jnp.asarray(policies), jnp.asarray(which[truth]))]
    return LinearClass(
        laws=laws,
        which=jnp.asarray(which.T),
        reward=reward,
        values=values(laws, reward, origin)[policies, which],
        variances=total_variances(true_laws, reward, origin),
        truth=jnp.asarray(truth),
        start=origin,
        horizon=reward.horizon,
    )


class GivenClass(FiniteClass):
    """A class defined by its functions; build one with `given_class`."""

    log_density: LogDensity = eqx.field(static=True)
    draw: Draw | None = eqx.field(static=True)
    reward: Reward | None = eqx.field(static=True)

    def log_likelihoods(self, policy: Index, x: Points, y: Points, gap: Scalars) -> Float[Array, " models"]:
        def one(model: Index) -> Scalar:
            return jnp.sum(jax.vmap(lambda x, y, gap: self.log_density(model, policy, x, y, gap))(x, y, gap))

        return jax.vmap(one)(jnp.arange(self.models))

    def sample(self, key: PRNGKeyArray, policy: Index, x: Point, gap: Scalar) -> Point:
        if self.draw is None:
            raise ValueError("this class cannot be simulated: give `given_class` a `sample(key, policy, x, gap)`")
        return self.draw(key, policy, x, gap)

    def rewards(self, policy: Index, x: Points) -> Scalars:
        if self.reward is None:
            raise ValueError("the rewards of this class are not known: give `given_class` a `reward(policy, states)`")
        return self.reward(policy, x)


@in_double
def given_class(
    values: Float[np.ndarray, "models policies"],
    log_density: LogDensity,
    *,
    start: Float[np.ndarray, " n"],
    horizon: float,
    truth: int = 0,
    sample: Draw | None = None,
    reward: Reward | None = None,
    variances: Float[np.ndarray, " policies"] | None = None,
) -> GivenClass:
    """Build a class from the values of its policies and its transition densities.

    Args:
        values: R_{f,g}(u) for every model and policy, in [0, 1]: rewards must be normalised.
        log_density: log p(y | x) as a JAX function of (model, policy, x, y, gap).
        start: State at time 0.
        horizon: T in seconds.
        truth: Number of the true model.
        sample: Draws the next state under the truth from (key, policy, x, gap); needed only to simulate.
        reward: Rewards at states, from (policy, states); needed only to estimate variances.
        variances: Var^u of every policy under the truth, if known.
    """
    if values.size == 0:
        raise ValueError(f"a class needs at least one model and one policy, not values of shape {values.shape}")
    _check_truth(truth, values.shape[0])
    if not np.all((values >= 0) & (values <= 1)):
        raise ValueError("values must lie in [0, 1]: divide the reward by the largest integral it can have")
    return GivenClass(
        log_density=log_density,
        draw=sample,
        reward=reward,
        values=jnp.asarray(values, float),
        variances=jnp.asarray(np.full(values.shape[1], np.nan) if variances is None else variances, float),
        truth=jnp.asarray(truth),
        start=jnp.asarray(start, float),
        horizon=horizon,
    )


def _check_truth(truth: int, models: int) -> None:
    if not 0 <= truth < models:
        raise ValueError(f"truth must be the number of one of the {models} models, not {truth}")


def walk(models: FiniteClass, policy: Index, times: Scalars, key: PRNGKeyArray) -> Points:
    """Sample states of the true system at `times` (from 0), each exactly given the one before."""

    def step(x: Array, gap_and_key: tuple[Array, Array]) -> tuple[Array, Array]:
        gap, key = gap_and_key
        x = models.sample(key, policy, x, gap)
        return x, x

    gaps = jnp.diff(times).astype(models.start.dtype)
    _, later = jax.lax.scan(step, models.start, (gaps, jax.random.split(key, gaps.shape[0])))
    return jnp.concatenate([models.start[None], later])


@in_double
def class_returns(
    models: FiniteClass, policy: int, samples: int, step: float, seed: int = 0
) -> Float[np.ndarray, " samples"]:
    """Integrals of the reward under the truth, from exactly sampled states `step` seconds apart."""
    times = jnp.linspace(0.0, models.horizon, math.ceil(models.horizon / step) + 1)
    keys = jax.random.split(jax.random.key(seed), samples)
    return np.asarray(_returns(models, jnp.asarray(policy), times, keys))


@eqx.filter_jit
def _returns(models: FiniteClass, policy: Array, times: Array, keys: Key[Array, " samples"]) -> Array:
    def one(key: PRNGKeyArray) -> Array:
        return jnp.trapezoid(models.rewards(policy, walk(models, policy, times, key)), times)

    return jax.lax.map(one, keys, batch_size=256)


@in_double
def closed_loop_smoothness(models: LinearClass, policy: int) -> Smoothness:
    """Constants of prop:var under the truth. The drift is that of the closed loop, so the policy's constant is 0."""
    law = models.laws[policy, int(models.which[policy, models.truth])].transition(jnp.asarray(SHORT))
    steepest = math.exp(-0.5) / (models.horizon * float(jnp.min(models.reward.width)))
    drift = (np.asarray(law.flow) - np.eye(law.flow.shape[-1])) / SHORT
    diffusion = math.sqrt(float(np.trace(np.asarray(law.covariance))) / SHORT)
    return Smoothness(steepest, float(np.linalg.norm(drift, 2)), 0.0, diffusion, models.horizon)


@in_double
def hellinger_table(
    models: LinearClass, states: Float[np.ndarray, "states size"], gaps: Float[np.ndarray, " gaps"]
) -> Float[np.ndarray, "models points"]:
    """psi[model, point] = H^2(p_model || p_truth) of def:eluder at every point (policy, state, gap).

    Policies vary slowest over the points.
    """
    if np.any(gaps <= 0):
        raise ValueError("gaps must be positive: over a gap of 0 there is no density")
    which, tables = np.asarray(models.which), []
    for policy in range(models.policies):
        law = models.laws[policy].transition(jnp.asarray(gaps)[:, None])
        means, covariance = np.asarray(law.mean(jnp.asarray(states)[:, None, None])), np.asarray(law.covariance)
        true = [which[policy, int(models.truth)]]
        per_variant = gaussian_hellinger2(means, covariance, means[:, :, true], covariance[:, true])
        tables.append(per_variant[..., which[policy]].reshape(-1, models.models).T)
    return np.maximum(np.concatenate(tables, axis=1), 0.0)
