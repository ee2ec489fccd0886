"""Multi-layer perceptrons over any leading batch axes."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

Tree = TypeVar("Tree")


class Mlp(eqx.Module):
    """Weights are stored [in, out], so that a batch is one matrix product per layer."""

    weights: tuple[Float[Array, "*members in out"], ...]
    biases: tuple[Float[Array, "*members out"], ...]
    activation: Callable[[Array], Array] = eqx.field(static=True)

    def __init__(self, sizes: Sequence[int], activation: Callable[[Array], Array], key: PRNGKeyArray):
        """Initialise uniformly in +-1/sqrt(fan in), as in the ENODE line of work, with zero biases."""
        keys = jax.random.split(key, len(sizes) - 1)
        bounds = [fan_in**-0.5 for fan_in in sizes[:-1]]
        self.weights = tuple(
            jax.random.uniform(k, (fan_in, fan_out), minval=-bound, maxval=bound)
            for k, fan_in, fan_out, bound in zip(keys, sizes[:-1], sizes[1:], bounds, strict=True)
        )
        self.biases = tuple(jnp.zeros(fan_out) for fan_out in sizes[1:])
        self.activation = activation

    def __call__(self, x: Float[Array, "*batch in"]) -> Float[Array, "*batch out"]:
        return self.through(x, lambda x, layer: x @ self.weights[layer])

    def through(
        self, x: Float[Array, "*batch in"], product: Callable[[Array, int], Array]
    ) -> Float[Array, "*batch out"]:
        """Apply all layers; `product` multiplies by the weights of one of them."""
        last = len(self.weights) - 1
        for layer in range(last):
            x = self.activation(product(x, layer) + self.biases[layer])
        return product(x, last) + self.biases[last]


class FixedMlp(eqx.Module):
    """An Mlp that is differentiated by its inputs only, with transposed weights ready for the backward pass.

    A loop that evaluates one network many times on few rows then runs backward as fast as forward: a product with a
    matrix that is transposed on the fly reaches two thirds of the rate.
    """

    net: Mlp
    transposed: tuple[Float[Array, "*members _ _"], ...]

    def __call__(self, x: Float[Array, "*batch in"]) -> Float[Array, "*batch out"]:
        return self.net.through(x, lambda x, layer: _pass_through(x, self.net.weights[layer], self.transposed[layer]))


def with_fixed_networks(tree: Tree) -> Tree:
    """Replace every network of a pytree by its fixed version."""

    def fixed(node: Any) -> Any:
        if not isinstance(node, Mlp):
            return node
        transposed = tuple(jnp.swapaxes(weight, -1, -2) for weight in node.weights)
        # Without the barrier the compiler undoes the transposition, product by product.
        return FixedMlp(node, jax.lax.optimization_barrier(transposed))

    return jax.tree.map(fixed, tree, is_leaf=lambda node: isinstance(node, Mlp))


@jax.custom_vjp
def _pass_through(x: Array, weight: Array, transposed: Array) -> Array:
    return x @ weight


def _forth(x: Array, weight: Array, transposed: Array) -> tuple[Array, Array]:
    return x @ weight, transposed


def _back(transposed: Array, gradient: Array) -> tuple[Array, None, None]:
    return gradient @ transposed, None, None


_pass_through.defvjp(_forth, _back)
