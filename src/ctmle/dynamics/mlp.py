"""Multi-layer perceptrons over any leading batch axes."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray


class Mlp(eqx.Module):
    """Weights are stored [in, out], so that a batch is one matrix product per layer."""

    weights: tuple[Float[Array, "*members in out"], ...]
    biases: tuple[Float[Array, "*members out"], ...]
    activation: Callable[[Array], Array] = eqx.field(static=True)

    def __init__(self, sizes: Sequence[int], activation: Callable[[Array], Array], key: PRNGKeyArray):
        """Uniform initialisation in +-1/sqrt(fan in), as the ENODE line of work has it; zero biases."""
        keys = jax.random.split(key, len(sizes) - 1)
        bounds = [fan_in**-0.5 for fan_in in sizes[:-1]]
        self.weights = tuple(
            jax.random.uniform(k, (fan_in, fan_out), minval=-bound, maxval=bound)
            for k, fan_in, fan_out, bound in zip(keys, sizes[:-1], sizes[1:], bounds, strict=True)
        )
        self.biases = tuple(jnp.zeros(fan_out) for fan_out in sizes[1:])
        self.activation = activation

    def __call__(self, x: Float[Array, "*batch in"]) -> Float[Array, "*batch out"]:
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = self.activation(x @ weight + bias)
        return x @ self.weights[-1] + self.biases[-1]
