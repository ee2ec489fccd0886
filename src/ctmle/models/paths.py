"""Where the state probably went between two looks, and which controls acted there."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ctmle.data.dataset import Dataset
from ctmle.envs.base import Spec
from ctmle.models.basis import inputs_of
from ctmle.models.bridge import MOST_SEGMENTS, Bridge
from ctmle.models.laws import Gap
from ctmle.models.model import SDE

AT_ONCE = 128
"""Gaps whose paths are computed at once: each has a copy of the policy that acted."""


Tree = TypeVar("Tree")


class Paths(eqx.Module):
    """Gaps between looks that follow each other, with points around the path between, and a drift's inputs there."""

    inputs: Float[Array, "gaps points inputs"]
    states: Float[Array, "gaps points observed"]
    weights: Float[Array, " points"]
    moved: Float[Array, "gaps observed"]
    seconds: Float[Array, " gaps"]


class Gaps(eqx.Module):
    """Gaps of a dataset, from looks to the next ones: `places` of looks, and whether they are more than padding.

    The number of places is a multiple of `AT_ONCE`.
    """

    spec: Spec
    data: Dataset
    places: Int[Array, " gaps"]
    real: Bool[Array, " gaps"]
    longest: float = eqx.field(static=True)

    @staticmethod
    def of(spec: Spec, data: Dataset, longest: float, order: int) -> "Gaps":
        """List all gaps in a random order, padded to `AT_ONCE` times a power of four, so that few shapes compile."""
        places = np.random.default_rng(order).permutation(np.flatnonzero(np.asarray(data.follows)))
        size = AT_ONCE
        while size < len(places):
            size *= 4
        padded = np.concatenate([places, np.repeat(places[:1], size - len(places))])
        return Gaps(spec, data, jnp.asarray(padded, jnp.int32), jnp.arange(size) < len(places), longest)

    def first(self, most: int) -> "Gaps":
        """Return the first of them."""
        return replace(self, places=self.places[:most], real=self.real[:most])

    def in_blocks(self, function: Callable[[Gap, Bool[Array, " gaps"]], Tree]) -> Tree:
        """Apply a function to gaps, and to whether they are real, `AT_ONCE` at once."""
        episodes = self.data.episodes_of(self.places)
        blocks = tuple(each.reshape(-1, AT_ONCE) for each in (self.places, episodes, self.real))
        return jax.lax.map(lambda block: function(self._gap(*block[:2]), block[2]), blocks)

    def _gap(self, looks: Int[Array, " gaps"], episodes: Int[Array, " gaps"]) -> Gap:
        """Return the gaps from looks of these episodes to the next ones, one sample each."""
        spec, data = self.spec, self.data
        t, later = data.times[looks][:, None], data.times[looks + 1][:, None]
        control = data.drives.of(episodes).over(t, later).control(spec)
        here, there = data.states[looks][:, None], data.states[looks + 1][:, None]
        return Gap(control, t, here, later - t, self.longest, end=there, observation=spec.observation)


@eqx.filter_jit
def paths_between(gaps: Gaps, sde: SDE, bridge: Bridge) -> Paths:
    """Find out where the state went in each gap, given both looks.

    At every node of the bridge between them there are two points, a standard deviation of the state above and below its
    mean along every coordinate, with random signs: under a policy that switches, what acted on average is not what
    would have acted on the mean path.
    """
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (AT_ONCE, MOST_SEGMENTS, gaps.spec.observation.size))

    def some(gap: Gap, _: Array) -> tuple[Array, ...]:
        tube = bridge.tube(sde, gap)
        path, spread = tube.path[:, 0], tube.spread[:, 0, 1:-1]
        away = spread * jnp.asarray(signs, path.dtype)[:, : spread.shape[1]]
        points = jnp.concatenate([path[:, :1], path[:, -1:], path[:, 1:-1] + away, path[:, 1:-1] - away], axis=1)
        nodes = jnp.linspace(0.0, 1.0, path.shape[1])
        shares = jnp.concatenate([nodes[:1], nodes[-1:], nodes[1:-1], nodes[1:-1]])
        control = gap.control(gap.t + gap.seconds * shares, points)
        return inputs_of(gaps.spec.observation, points, control), points, gap.residual(gap.y)[:, 0], gap.seconds[:, 0]

    inputs, states, moved, seconds = (leaf.reshape(-1, *leaf.shape[2:]) for leaf in gaps.in_blocks(some))
    return Paths(inputs, states, _weights(states.shape[1] // 2), moved, seconds)


def _weights(segments: int) -> Float[Array, " points"]:
    """Return the weights of both ends, then of all points above, then below: those of the trapezoidal rule."""
    inner = np.full(segments - 1, 0.5 / segments)
    return jnp.asarray(np.concatenate([[0.5 / segments] * 2, inner, inner]), jnp.float32)
