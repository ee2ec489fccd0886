"""How noisy a system with a known drift is: maximum likelihood under a transition law."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ctmle.data.dataset import Dataset
from ctmle.envs.base import Spec
from ctmle.models.basis import BasisSDE
from ctmle.models.flow import matmul, transposed
from ctmle.models.gaussian import solve_lower
from ctmle.models.laws import Law
from ctmle.models.paths import Block, gap_of, in_blocks

ROUNDS = 6
"""Rounds of Fisher scoring, each of which moves a logarithm by at most 1."""

Levels = Float[Array, " observed"]


@eqx.filter_jit
def most_likely_noise(
    spec: Spec,
    data: Dataset,
    looks: tuple[Int[Array, " gaps"], Bool[Array, " gaps"]],
    sde: BasisSDE,
    law: Law,
    longest_gap: float,
    inflation: Levels,
    floor: float,
) -> BasisSDE:
    """Return the SDE with the diagonal g that makes the gaps from these looks to the next most likely.

    A law knows what noise does between two looks: under steep feedback it comes back amplified. `inflation` makes up
    for the share of the residuals that the drift has fitted. Looks that only pad are marked by False.
    """

    def moments(some: Block, noise: Levels) -> tuple[Array, tuple[Array, Array]]:
        gap = gap_of(spec, data, *some[:2], longest_gap)
        found, residual = law.seen(eqx.tree_at(lambda s: s.noise, sde, noise), gap)
        return matmul(found.factor, transposed(found.factor)), (residual, found.factor)

    def scored(levels: Levels, _: None) -> tuple[Levels, None]:
        def block(some: Block) -> tuple[Array, Array]:
            def covariance(levels: Levels) -> tuple[Array, tuple[Array, Array]]:
                return moments(some, jnp.exp(levels))

            slopes, (residual, factor) = jax.jacfwd(covariance, has_aux=True)(levels)
            white = solve_lower(factor, residual * inflation)
            size = len(levels)
            columns = [solve_lower(factor, jnp.broadcast_to(unit, residual.shape)) for unit in jnp.eye(size)]
            inverse = jnp.stack(columns, axis=-1)
            shares = [matmul(matmul(inverse, slopes[..., k]), transposed(inverse)) for k in range(size)]
            share = jnp.stack(shares)  # what each level adds to the whitened covariance
            trace = jnp.trace(share, axis1=-2, axis2=-1)
            score = 0.5 * (jnp.einsum("knsij,nsi,nsj->kn", share, white, white) - trace.sum(-1))
            real = some[2] & jnp.all(jnp.isfinite(score), axis=0)
            known = 0.5 * jnp.einsum("knsij,lnsij->kln", share, share)
            return jnp.sum(jnp.where(real, score, 0.0), -1), jnp.sum(jnp.where(real, known, 0.0), -1)

        score, known = jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), in_blocks(block, data, looks))
        step = jnp.linalg.solve(known + 1e-6 * jnp.eye(len(levels)) * jnp.trace(known), score)
        return jnp.maximum(levels + jnp.clip(step, -1.0, 1.0), jnp.log(floor)), None

    levels, _ = jax.lax.scan(scored, jnp.log(sde.noise), None, length=ROUNDS)
    return eqx.tree_at(lambda s: s.noise, sde, jnp.exp(levels))
