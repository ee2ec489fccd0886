"""Policies: a feedback network plus an open-loop signal, so that every trajectory records exactly what drove it."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ctmle.envs.base import Spec
from ctmle.plants.base import Continuous
from ctmle.training.mlp import Mlp


class Feedback(eqx.Module):
    """u = centre + half-width * tanh(net(features of y)), for any leading batch axes."""

    net: Mlp
    spec: Spec

    def __call__(self, t: Float[Array, "..."], y: Float[Array, "*batch observed"]) -> Float[Array, "*batch control"]:
        low = jnp.asarray(self.spec.control_low, y.dtype)
        high = jnp.asarray(self.spec.control_high, y.dtype)
        return 0.5 * (low + high) + 0.5 * (high - low) * jnp.tanh(self.raw(y))

    def raw(self, y: Float[Array, "*batch observed"]) -> Float[Array, "*batch control"]:
        """Return the arguments of the tanh."""
        return self.net(self.spec.observation.features(y))


class Signal(eqx.Module):
    """A smooth signal u(t) = sum of amplitude * cos(frequency * t), whose double integral stays bounded.

    Under random actions with a drift a cart would be 180 m away after 10 s.
    """

    amplitudes: Float[Array, "waves control"]
    frequencies: Float[Array, "waves control"]

    def __call__(self, t: Float[Array, "*batch"]) -> Float[Array, "*batch control"]:
        return jnp.sum(self.amplitudes * jnp.cos(self.frequencies * t[..., None, None]), axis=-2)


class Policy(Continuous):
    """u(t, y) = gain * feedback(t, y) + signal(t). Gain 0 explores open loop; a zero signal is the plain feedback."""

    feedback: Feedback
    signal: Signal
    gain: Float[Array, ""]

    def __call__(self, t: Any, y: Any) -> Float[Array, "*batch control"]:
        """Return the control at times and observed states: arrays, or numbers and lists of them."""
        times, states = jnp.asarray(t, _floating(t)), jnp.asarray(y, _floating(y))
        return self.feedback.spec.clip(self.gain * self.feedback(times, states) + self.signal(times))


def _floating(values: Any) -> Any:
    """Return the type to compute with: that of an array, single precision for anything else."""
    return values.dtype if eqx.is_array(values) else jnp.float32


def init_feedback(spec: Spec, key: PRNGKeyArray, hidden: Sequence[int]) -> Feedback:
    """Initialise near-zero controls: a policy that starts saturated has no gradient to learn from."""
    net = Mlp((spec.observation.feature_size, *hidden, spec.control_size), jax.nn.relu, key)
    return Feedback(eqx.tree_at(lambda n: n.weights[-1], net, 0.1 * net.weights[-1]), spec)


def silent_signal(spec: Spec, waves: int) -> Signal:
    zeros = jnp.zeros((waves, spec.control_size))
    return Signal(zeros, zeros)


@eqx.filter_jit
def random_signal(
    spec: Spec,
    key: PRNGKeyArray,
    *,
    waves: int = 3,
    slowest: float = 2.0,
    fastest: float = 8.0,
    strength: float = 1.0,
) -> Signal:
    """Draw `waves` cosines of random sign with zero phase, at frequencies between `slowest` and `fastest` rad/s."""
    sign_key, frequency_key = jax.random.split(key)
    shape = (waves, spec.control_size)
    reach = 0.5 * (jnp.asarray(spec.control_high) - jnp.asarray(spec.control_low))
    signs = jax.random.rademacher(sign_key, shape, jnp.float32)
    frequencies = jax.random.uniform(frequency_key, shape, minval=slowest, maxval=fastest)
    return Signal(strength * reach * signs / waves**0.5, frequencies)
