"""The best state of rest: where some control holds the system still, and the reward is highest."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from ctmle.envs.base import Spec
from ctmle.models.world import World

Box = tuple[Float[Array, " state"], Float[Array, " state"]]
Rest = tuple[Float[Array, " state"], Float[Array, ""]]

TRIED, REFINED, STEPS, RATE = 512, 96, 300, 0.02
"""Points that are drawn from the box, those of the smallest drift that are refined, and how: by Adam."""

STILLNESS = 0.3
"""Price of the squared drift, in half-widths of the box per second."""

RISK = 0.2
"""Ends per second that halve the worth of a rest."""


@eqx.filter_jit
def best_rest(world: World, spec: Spec, box: Box, key: PRNGKeyArray) -> Rest:
    """Maximise  b(x, u) - STILLNESS * |f(x, u) / half-width|^2  over states and controls, f averaged over members.

    Where episodes end at a rate h, b is worth b / (1 + h / RISK). Returns the state and the reward there.
    """
    low, high = box
    half = jnp.maximum(0.5 * (high - low), 1e-2)
    width = spec.observation.encode_widths(half)
    bottom, top = jnp.asarray(spec.control_low), jnp.asarray(spec.control_high)
    state_key, control_key = jax.random.split(key)
    x = low + (high - low) * jax.random.uniform(state_key, (TRIED, len(low)))
    v = jax.random.uniform(control_key, (TRIED, len(bottom)), minval=-1.0, maxval=1.0)

    def judged(x: Array, v: Array) -> tuple[Array, Array]:
        """Return the reward and the squared drift of points, whose controls are tanh(v) of their range."""
        y, u = spec.observation.encode(x), 0.5 * (bottom + top) + 0.5 * (top - bottom) * jnp.tanh(v)
        copies = [jnp.broadcast_to(leaf, (world.sde.members, *leaf.shape)) for leaf in (y, u)]
        drift = jnp.mean(world.sde.drift(*copies), axis=0)
        zero = jnp.zeros(x.shape[:-1])
        reward = world.reward(zero, y, u)
        if world.hazard is not None:
            reward = reward / (1.0 + world.hazard(zero, y, u) / RISK)
        return reward, jnp.sum((drift / width) ** 2, axis=-1)

    still = jnp.argsort(judged(x, v)[1])[:REFINED]
    optimiser = optax.adam(optax.cosine_decay_schedule(RATE, STEPS, 0.1))
    points = (x[still] / half, v[still])

    def value(points: tuple[Array, Array]) -> Array:
        reward, speed = judged(points[0] * half, points[1])
        return reward - STILLNESS * speed

    def step(carry: tuple, _: None) -> tuple[tuple, None]:
        points, state = carry
        gradient = jax.grad(lambda points: -jnp.sum(value(points)))(points)
        gradient = jax.tree.map(lambda leaf: jnp.where(jnp.isfinite(leaf), leaf, 0.0), gradient)  # such a point stays
        updates, state = optimiser.update(gradient, state)
        return (optax.apply_updates(points, updates), state), None

    (points, _), _ = jax.lax.scan(step, (points, optimiser.init(points)), None, length=STEPS)
    values = value(points)
    best = jnp.argmax(jnp.where(jnp.isfinite(values), values, -jnp.inf))
    state, control = points[0][best] * half, points[1][best]
    return state, judged(state[None], control[None])[0][0]
