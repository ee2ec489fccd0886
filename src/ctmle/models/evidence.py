"""Bayesian linear regression of what coordinates moved on a basis, with prior scales and noise by evidence."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ctmle.models.basis import products, wave
from ctmle.training.double import in_double

GROUPS = 4
"""Kinds of functions in the basis, each with a prior scale: constant, linear, quadratic, waves."""

CENTRES = {"groups": np.log([0.3, 1.0, 0.5, 0.5]), "relevance": 0.0, "lengths": np.log(2.0), "noise": np.log(0.1)}
WIDTHS = {"groups": 1.5, "relevance": 1.0, "lengths": 0.7, "noise": 3.0}
"""Means and standard deviations of the normal priors of the logarithms of all scales, in units of the data."""

LEAST_LEFT = 0.2
"""Least share of the looks that count as free of fitted weights, where the basis has more functions than looks."""

RATE = 0.1
"""Learning rate of Adam on the logarithms of all scales at its start."""


class Rows(eqx.Module):
    """What coordinates moved between two looks each, and the inputs of the basis at nodes of the path between."""

    inputs: Float[Array, "rows points inputs"]
    weights: Float[Array, " points"]
    moved: Float[Array, "rows learned"]
    seconds: Float[Array, " rows"]
    real: Bool[Array, " rows"]

    def first(self, count: int) -> "Rows":
        """Return the first rows, at most so many."""
        kept = (self.inputs, self.moved, self.seconds, self.real)
        inputs, moved, seconds, real = (leaf[:count] for leaf in kept)
        return Rows(inputs, self.weights, moved, seconds, real)


class Scales(eqx.Module):
    """Logarithms of the scales of priors and noise, in the units in which the data has size 1."""

    groups: Float[Array, "learned groups"]
    relevance: Float[Array, "learned inputs"]
    lengths: Float[Array, "learned inputs"]
    noise: Float[Array, " learned"]

    @staticmethod
    def initial(learned: int, inputs: int) -> "Scales":
        return Scales(
            groups=jnp.tile(jnp.asarray(CENTRES["groups"], jnp.float32), (learned, 1)),
            relevance=jnp.zeros((learned, inputs)),
            lengths=jnp.full((learned, inputs), CENTRES["lengths"], jnp.float32),
            noise=jnp.full(learned, CENTRES["noise"], jnp.float32),
        )

    def log_prior(self) -> Float[Array, ""]:
        parts = [(getattr(self, name) - CENTRES[name]) / WIDTHS[name] for name in CENTRES]
        return -0.5 * sum((jnp.sum(part**2) for part in parts), start=jnp.zeros(()))


class Waves(eqx.Module):
    """Random frequencies, before they are divided by length-scales, and phases, both in turns."""

    frequencies: Float[Array, "learned inputs waves"]
    phases: Float[Array, "learned waves"]

    @staticmethod
    def drawn(keys: tuple[PRNGKeyArray, PRNGKeyArray], learned: int, inputs: int, count: int) -> "Waves":
        """Draw so many waves for each of what is learned."""
        frequencies = jax.random.normal(keys[0], (learned, inputs, count)) / (2 * np.pi)
        return Waves(frequencies, jax.random.uniform(keys[1], (learned, count)))


class Posterior(eqx.Module):
    """Normal posteriors of the weights of all functions, and the noise, in units of the data.

    Weights have mean `mean` and covariance `root root'`, an upper triangular root. `free` is the number of weights that
    the data determines rather than the prior, `evidence` the log-density of all that moved, before it was seen.
    """

    mean: Float[Array, "*learned functions"]
    root: Float[Array, "*learned functions functions"]
    noise: Float[Array, "*learned"]
    free: Float[Array, "*learned"]
    evidence: Float[Array, "*learned"]

    @staticmethod
    def empty(learned: int, functions: int) -> "Posterior":
        """Return the posterior before any data."""
        none, zero = jnp.zeros((learned, functions)), jnp.zeros(learned)
        return Posterior(none, jnp.zeros((learned, functions, functions)), jnp.ones(learned), zero, zero)


def design(z: Float[Array, "*batch inputs"], waves: Waves, scales: Scales, controls: int) -> Float[Array, "*batch f"]:
    """Evaluate the functions of the basis for one coordinate (without the axis of coordinates)."""
    rows, columns = products(z.shape[-1], controls)
    turns = z @ (waves.frequencies * jnp.exp(-scales.lengths)[:, None]) + waves.phases
    return jnp.concatenate([jnp.ones_like(z[..., :1]), z, z[..., rows] * z[..., columns], wave(turns)], axis=-1)


def prior_scales(scales: Scales, waves: int, controls: int) -> Float[Array, " f"]:
    """Return the prior standard deviation of the weight of each function, for one coordinate."""
    rows, columns = products(scales.relevance.shape[-1], controls)
    size, each = jnp.exp(scales.groups), jnp.exp(scales.relevance)
    return jnp.concatenate(
        [size[:1], size[1] * each, size[2] * each[rows] * each[columns], jnp.full(waves, size[3] * (2 / waves) ** 0.5)]
    )


class Regression(eqx.Module):
    """Sums over rows from which posterior and evidence of one coordinate follow."""

    gram: Float[Array, "f f"]
    cross: Float[Array, " f"]
    square: Float[Array, ""]
    count: Float[Array, ""]

    @staticmethod
    def of(x: Float[Array, "rows f"], y: Float[Array, " rows"], real: Bool[Array, " rows"]) -> "Regression":
        x, y = jnp.where(real[:, None], x, 0.0), jnp.where(real, y, 0.0)
        return Regression(x.T @ x, x.T @ y, y @ y, jnp.sum(real).astype(x.dtype))

    def solved(self, prior: Float[Array, " f"], noise: Float[Array, ""]) -> tuple[Array, Array, Array]:
        """Return the posterior mean, the Cholesky factor of I + D gram D / noise^2, and the sum of squared errors of
        the prior predictive, whitened."""
        power = noise**2
        matrix = jnp.eye(len(prior), dtype=prior.dtype) + prior[:, None] * self.gram * prior / power
        factor = jnp.linalg.cholesky(matrix)
        white = jax.scipy.linalg.solve_triangular(factor, prior * self.cross / power, lower=True)
        mean = prior * jax.scipy.linalg.solve_triangular(factor.T, white, lower=False)
        return mean, factor, self.square / power - white @ white

    def log_evidence(self, prior: Float[Array, " f"], noise: Float[Array, ""]) -> Float[Array, ""]:
        _, factor, misfit = self.solved(prior, noise)
        size = 2 * self.count * jnp.log(noise) + 2 * jnp.sum(jnp.log(jnp.diagonal(factor)))
        return -0.5 * (misfit + size + self.count * np.log(2 * np.pi))


def _rows_of(rows: Rows, z: Array, waves: Waves, scales: Scales, controls: int) -> Float[Array, "rows f"]:
    """Integrate the functions along the paths of all rows, for one coordinate; divided by the root of the time, so that
    the noise of each row has the same size."""
    values = design(z, waves, scales, controls)
    return jnp.sqrt(rows.seconds)[:, None] * jnp.einsum("n,rnf->rf", rows.weights, values)


@in_double
def most_likely(rows: Rows, units: Any, waves: Waves, scales: Scales, floor: Array, *, steps: int) -> Scales:
    """Climb the evidence of all coordinates from the given scales by so many steps of Adam."""
    return _most_likely(rows, units, waves, scales, floor, steps)


@eqx.filter_jit
def _most_likely(rows: Rows, units: Any, waves: Waves, scales: Scales, floor: Array, steps: int) -> Scales:
    rows, units, waves, scales, floor = _as_double((rows, units, waves, scales, floor))
    z, moved, controls = _in_units(rows, units)

    def one(moved: Array, waves: Waves, scales: Scales, floor: Array) -> Array:
        x = _rows_of(rows, z, waves, scales, controls)
        prior = prior_scales(scales, waves.phases.shape[-1], controls)
        sums = Regression.of(x, moved / jnp.sqrt(rows.seconds), rows.real)
        return sums.log_evidence(prior, floor + jnp.exp(scales.noise))

    def loss(scales: Scales) -> Array:
        return -jnp.sum(jax.vmap(one)(moved.T, waves, scales, floor)) - scales.log_prior()

    optimiser: Any = optax.adam(optax.cosine_decay_schedule(RATE, steps, 0.1))

    def step(carry: tuple[Scales, Any], _: None) -> tuple[tuple[Scales, Any], None]:
        scales, state = carry
        updates, state = optimiser.update(jax.grad(loss)(scales), state)
        return (eqx.apply_updates(scales, updates), state), None

    (scales, _), _ = jax.lax.scan(step, (scales, optimiser.init(scales)), None, length=steps)
    return _as_single(scales)


@in_double
def posterior(rows: Rows, units: Any, waves: Waves, scales: Scales, floor: Array) -> Posterior:
    """Compute the posterior of all weights from all rows; the noise is what the posterior mean leaves of the data."""
    return _posterior(rows, units, waves, scales, floor)


@eqx.filter_jit
def _posterior(rows: Rows, units: Any, waves: Waves, scales: Scales, floor: Array) -> Posterior:
    rows, units, waves, scales, floor = _as_double((rows, units, waves, scales, floor))
    z, moved, controls = _in_units(rows, units)

    def one(moved: Array, waves: Waves, scales: Scales, floor: Array) -> Posterior:
        x = _rows_of(rows, z, waves, scales, controls)
        prior = prior_scales(scales, waves.phases.shape[-1], controls)
        sums = Regression.of(x, moved / jnp.sqrt(rows.seconds), rows.real)

        def again(carry: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], None]:
            mean, factor = sums.solved(prior, carry[0])[:2]
            inverse = jax.scipy.linalg.solve_triangular(factor, jnp.eye(len(prior), dtype=factor.dtype), lower=True)
            free = len(prior) - jnp.sum(inverse**2)
            left = sums.square - 2 * mean @ sums.cross + mean @ sums.gram @ mean
            found = jnp.sqrt(jnp.maximum(left, 0.0) / jnp.maximum(sums.count - free, LEAST_LEFT * sums.count))
            return (jnp.maximum(found, floor), free), None

        first = floor + jnp.exp(scales.noise)
        (noise, free), _ = jax.lax.scan(again, (first, jnp.zeros_like(first)), None, length=3)
        mean, factor, _ = sums.solved(prior, noise)
        root = prior[:, None] * jax.scipy.linalg.solve_triangular(
            factor.T, jnp.eye(len(prior), dtype=factor.dtype), lower=False
        )
        return Posterior(mean, root, noise, free, sums.log_evidence(prior, noise))

    return _as_single(jax.vmap(one)(moved.T, waves, scales, floor))


def _in_units(rows: Rows, units: Any) -> tuple[Array, Array, int]:
    input_scale, output_scale, controls = units
    return rows.inputs / input_scale, rows.moved / output_scale, controls


def _as_double(tree: Any) -> Any:
    return _cast(tree, jnp.float64)


def _as_single(tree: Any) -> Any:
    return _cast(tree, jnp.float32)


def _cast(tree: Any, kind: Any) -> Any:
    def cast(leaf: Any) -> Any:
        return leaf.astype(kind) if eqx.is_inexact_array(leaf) else leaf

    return jax.tree.map(cast, tree)
