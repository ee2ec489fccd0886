"""Finite classes of drift-diffusion pairs with a finite set of policies, which exact CT-MLE enumerates."""

from abc import abstractmethod
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ctmle.theory.exact.linear import LinearLaw
from ctmle.theory.exact.precision import in_double
from ctmle.theory.exact.reward import Bump, total_variances, values

Point = Float[Array, " size"]
Points = Float[Array, "looks size"]
Scalar = Float[Array, ""]
Scalars = Float[Array, " looks"]
Index = Int[Array, ""]


class FiniteClass(eqx.Module):
    """Numbered models (f, g) and policies u; one of the models is the truth."""

    values: eqx.AbstractVar[Float[Array, "models policies"]]
    """R_{f,g}(u), at most 1."""
    variances: eqx.AbstractVar[Float[Array, " policies"]]
    """Var^u under the truth."""
    truth: eqx.AbstractVar[Index]
    start: eqx.AbstractVar[Point]
    horizon: eqx.AbstractVar[float]

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
    values: Float[Array, "models policies"]
    variances: Float[Array, " policies"]
    truth: Index
    start: Point
    horizon: float = eqx.field(static=True)

    def log_likelihoods(self, policy: Index, x: Points, y: Points, gap: Scalars) -> Float[Array, " models"]:
        variants = self.laws[policy]
        gaps = jnp.broadcast_to(gap[:, None], (gap.shape[0], variants.push.shape[0]))
        law = variants.transition(gaps)(x[:, None])
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
    policies, start_ = np.arange(which.shape[1]), jnp.asarray(start, float)
    per_law = values(laws, reward, start_)
    true_laws = laws[(jnp.asarray(policies), jnp.asarray(which[truth]))]
    return LinearClass(
        laws=laws,
        which=jnp.asarray(which.T),
        reward=reward,
        values=per_law[policies, which],
        variances=total_variances(true_laws, reward, start_),
        truth=jnp.asarray(truth),
        start=start_,
        horizon=reward.horizon,
    )


class GivenClass(FiniteClass):
    """A class defined by its functions; build one with `given_class`."""

    log_density: Callable[[Index, Index, Point, Point, Scalar], Scalar] = eqx.field(static=True)
    draw: Callable[[PRNGKeyArray, Index, Point, Scalar], Point] | None = eqx.field(static=True)
    reward: Callable[[Index, Points], Scalars] | None = eqx.field(static=True)
    values: Float[Array, "models policies"]
    variances: Float[Array, " policies"]
    truth: Index
    start: Point
    horizon: float = eqx.field(static=True)

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
    log_density: Callable[[Index, Index, Point, Point, Scalar], Scalar],
    *,
    start: Float[np.ndarray, " n"],
    horizon: float,
    truth: int = 0,
    sample: Callable[[PRNGKeyArray, Index, Point, Scalar], Point] | None = None,
    reward: Callable[[Index, Points], Scalars] | None = None,
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


def walk(
    models: FiniteClass, policy: Index, times: Float[Array, " looks"], key: PRNGKeyArray
) -> Float[Array, "looks size"]:
    """Sample states of the true system at `times` (from 0), each exactly given the one before."""

    def step(x: Array, gap_and_key: tuple[Array, Array]) -> tuple[Array, Array]:
        gap, key = gap_and_key
        x = models.sample(key, policy, x, gap)
        return x, x

    gaps = jnp.diff(times).astype(models.start.dtype)
    _, later = jax.lax.scan(step, models.start, (gaps, jax.random.split(key, gaps.shape[0])))
    return jnp.concatenate([models.start[None], later])


def _check_truth(truth: int, models: int) -> None:
    if not 0 <= truth < models:
        raise ValueError(f"truth must be the number of one of the {models} models, not {truth}")
