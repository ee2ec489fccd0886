"""SDEs whose drift is linear in its parameters: polynomials of degree two and random waves of features and controls."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ctmle.data.dataset import Dataset
from ctmle.envs.base import Spec
from ctmle.envs.observation import Observation
from ctmle.models.kinematics import Kinematics
from ctmle.models.model import SDE, Controls, Noise, Observed
from ctmle.models.networks import bounded, root_mean_square

COSINE = (0.99999999, -19.7392045, 64.9391174, -85.4501386, 60.1676231, -25.9675685, 6.52861337)
"""Coefficients of cos(2 pi r) in r^2 for r in [-1/2, 1/2], fitted by least squares at Chebyshev nodes: the error is
below 1e-6 in single precision."""

LEAST_INPUT = 0.1
"""Smallest scale of an input: what hardly moved in a first trial may move later."""

MOST_SHAPE = 1.4
"""Largest logarithm of the factor by which noise varies with state and control: about 4."""

GIVEN: tuple[str, ...] = ("input_scale", "output_scale", "frequencies", "phases", "noise", "shape")
"""Fields of a basis SDE that do not follow from the weights."""


class Basis(eqx.Module):
    """Functions of state and control that are linear in what multiplies the functions of a basis.

    The functions are those of z, the features of y and the control, divided by `input_scale`: 1, z_i, z_i z_j (products
    of two controls only if they are `squared`), and waves cos(2 pi (z . frequency + phase)) with random frequencies.
    """

    input_scale: Float[Array, "*members inputs"]
    output_scale: Float[Array, "*members learned"]
    constant: Float[Array, "*members learned"]
    linear: Float[Array, "*members inputs learned"]
    quadratic: Float[Array, "*members products learned"]
    frequencies: Float[Array, "*members inputs waves"]
    phases: Float[Array, "*members waves"]
    heights: Float[Array, "*members waves learned"]
    """Those of a function's own waves; zero for all others, because one product of matrices is fast."""
    observation: Observation

    squared: ClassVar[bool] = False

    def values(self, y: Observed, u: Controls) -> Float[Array, "*batch learned"]:
        """Return what is learned, in its own units, within bounds that no data supports leaving."""
        z, squares = self._powers(y, u)
        waves = wave(z @ self.frequencies + self.phases)
        found = self.constant + z @ self.linear + squares @ self.quadratic + waves @ self.heights
        return bounded(found, self.output_scale)

    def _powers(self, y: Observed, u: Controls) -> tuple[Array, Array]:
        """Return z and its products."""
        z = inputs_of(self.observation, y, u) / self.input_scale
        first, second = products(z.shape[-1], 0 if self.squared else u.shape[-1])
        return z, (z @ selection(first, z.shape[-1])) * (z @ selection(second, z.shape[-1]))


class BasisSDE(Basis, SDE):
    """dy = f(y, u) dt + g dW, with f linear in what multiplies the functions of a basis.

    A learned coordinate has waves of its own. The coordinates that `kinematics` knows follow their velocities.
    """

    noise: Float[Array, "*members observed"]
    """The level of the diagonal of g."""
    shape: Float[Array, "*members powers observed"]
    """Weights of z and its products in the logarithm of a factor on the noise; zeros: it is the same everywhere."""
    kinematics: Kinematics

    def drift(self, y: Observed, u: Controls) -> Observed:
        return self.kinematics.completed(y, self.values(y, u))

    def diffusion(self, y: Observed, u: Controls) -> Noise:
        powers = jnp.concatenate(self._powers(y, u), axis=-1)
        return self.noise * jnp.exp(MOST_SHAPE * jnp.tanh(powers @ self.shape / MOST_SHAPE))

    def powers(self, y: Observed, u: Controls) -> Array:
        """Return what the logarithm of the noise is linear in: 1, z and its products."""
        z, squares = self._powers(y, u)
        return jnp.concatenate([jnp.ones_like(z[..., :1]), z, squares], axis=-1)


class BasisReward(Basis):
    """A reward per second b(y, u) that is linear in what multiplies the functions of a basis."""

    squared: ClassVar[bool] = True

    def __call__(self, t: Float[Array, "..."], y: Observed, u: Controls) -> Float[Array, "*batch"]:
        return self.values(y, u)[..., 0]


def with_weights(
    weights: Float[Array, "members learned functions"],
    given: dict[str, Array],
    observation: Observation,
    kinematics: Kinematics,
) -> BasisSDE:
    """Return a stack of SDEs with these weights of all functions, and equal in all that is `given` (`GIVEN`)."""
    members = len(weights)
    return BasisSDE(
        observation=observation,
        kinematics=kinematics,
        **multipliers(weights, given["input_scale"].shape[-1], given["phases"].shape[-1]),
        **{name: jnp.broadcast_to(leaf, (members, *leaf.shape)) for name, leaf in given.items()},
    )


def multipliers(weights: Float[Array, "*members learned functions"], inputs: int, waves: int) -> dict[str, Array]:
    """Return what multiplies the functions of a basis, by the names of its fields; `waves` are those of all learned."""
    learned, functions = weights.shape[-2:]
    first, second = 1 + inputs, functions - waves // learned
    own = jnp.eye(learned)[:, None, :] * jnp.ones((1, functions - second, 1))
    return {
        "constant": weights[..., 0],
        "linear": jnp.swapaxes(weights[..., 1:first], -1, -2),
        "quadratic": jnp.swapaxes(weights[..., first:second], -1, -2),
        "heights": (weights[..., second:, None] * own).reshape(*weights.shape[:-2], -1, learned),
    }


def inputs_of(observation: Observation, y: Observed, u: Controls) -> Array:
    """Return what the basis is a function of: features of the state, then the control."""
    return jnp.concatenate([observation.features(y), u], axis=-1)


def functions_of(inputs: int, controls: int, waves: int) -> int:
    """Count the functions of a basis: 1, z, products, and the waves of one of what is learned."""
    return 1 + inputs + len(products(inputs, controls)[0]) + waves


@eqx.filter_jit
def input_sizes(spec: Spec, data: Dataset) -> Float[Array, " inputs"]:
    """Measure in which units inputs have size 1: cosines and sines, and controls, by their range."""
    low, high = jnp.asarray(spec.control_low), jnp.asarray(spec.control_high)
    features = spec.observation.features(data.states)
    sizes = jnp.maximum(root_mean_square(features, data.real[:, None].astype(features.dtype)), LEAST_INPUT)
    circular = jnp.arange(len(sizes)) < 2 * len(spec.observation.angles)
    return jnp.concatenate([jnp.where(circular, 1.0, sizes), 0.5 * (high - low)])


def products(inputs: int, controls: int) -> tuple[np.ndarray, np.ndarray]:
    """List the pairs of inputs that the basis multiplies, all but those of two controls: row and column of each."""
    rows, columns = np.triu_indices(inputs)
    kept = rows < inputs - controls
    return rows[kept], columns[kept]


def selection(rows: np.ndarray, size: int) -> np.ndarray:
    """Return the matrix that picks these coordinates of a vector, whose backward pass is a product too."""
    return np.eye(size, dtype=np.float32)[:, rows]


def wave(turns: Array) -> Array:
    """Compute cos(2 pi turns) by a polynomial: on a processor ten times as fast as XLA's cosine."""
    part = turns - jnp.round(turns)
    s, c = part * part, COSINE
    return (c[0] + c[1] * s) + s * s * ((c[2] + c[3] * s) + s * s * ((c[4] + c[5] * s) + s * s * c[6]))
