"""How noisy a system with a known drift is: maximum likelihood under a transition law."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ctmle.models.basis import BasisSDE
from ctmle.models.flow import matmul, transposed
from ctmle.models.gaussian import solve_lower
from ctmle.models.laws import Gap, Law
from ctmle.models.paths import Gaps

ROUNDS, SHAPE_ROUNDS = 6, 3
"""Rounds of Fisher scoring of the levels and of the shape. Each moves a logarithm by at most 1."""

SHAPE_WIDTH = 0.5
"""Standard deviation of the normal prior of the weights of the shape."""

ASKED_FOR = 3.0
"""Nats of evidence that the noise must gain by varying with state and control."""

Levels = Float[Array, " observed"]
Scores = tuple[Float[Array, "observed gaps"], Float[Array, "observed observed gaps"], Float[Array, "gaps powers"]]


@eqx.filter_jit
def most_likely_noise(
    gaps: Gaps, sde: BasisSDE, law: Law, inflation: Levels, floor: float, varying: bool = False
) -> BasisSDE:
    """Return the SDE with the noise that makes the gaps most likely.

    A law knows what noise does between two looks: under steep feedback it comes back amplified. `inflation` makes up
    for the share of the residuals that the drift has fitted.

    Levels come first. With `varying`, the noise of a coordinate then varies with state and control if that gains
    evidence: its logarithm is linear in the powers where a gap begins, with a normal prior of the weights. The evidence
    of the first step from constant noise is that of a linear regression (Laplace).
    """
    size, functions = len(sde.noise), 1 + len(sde.shape)
    precision = jnp.full(functions, SHAPE_WIDTH**-2).at[0].set(0.0)

    def block(sde: BasisSDE, gap: Gap, real: Array) -> tuple[Array, Array, Array]:
        score, known, powers = _scores(gap, real, sde, law, inflation)
        own = known[jnp.arange(size), jnp.arange(size)]
        return score @ powers, jnp.sum(known, -1), jnp.einsum("kn,nf,ng->kfg", own, powers, powers)

    def scored(carry: tuple[Array, Array, Array], turn: Array) -> tuple[tuple[Array, Array, Array], None]:
        noise, shape, asked = carry
        now = eqx.tree_at(lambda s: (s.noise, s.shape), sde, (noise, shape))
        sums = gaps.in_blocks(lambda gap, real: block(now, gap, real))
        score, known, own = (jnp.sum(leaf, axis=0) for leaf in sums)
        level = jnp.linalg.solve(known + 1e-6 * jnp.eye(size) * jnp.trace(known), score[:, 0])
        step = jnp.zeros((functions, size)).at[0].set(level)
        if varying:
            gains = jax.vmap(lambda score, own: _gain(score, own, precision))(score, own)
            asked = jnp.where(turn == ROUNDS, (gains > ASKED_FOR) & (noise > 2 * floor), asked)
            slope = score - precision * jnp.concatenate([jnp.zeros((1, size)), shape]).T
            bent = jax.vmap(jnp.linalg.solve)(own + jnp.diag(precision + 1e-6), slope)
            step = jnp.where(turn < ROUNDS, step, jnp.where(asked[:, None], bent, 0.0).T)
        step = jnp.clip(step, -1.0, 1.0)
        return (jnp.maximum(noise * jnp.exp(step[0]), floor), shape + step[1:], asked), None

    start = (sde.noise, jnp.zeros_like(sde.shape), jnp.zeros(size, bool))
    (noise, shape, _), _ = jax.lax.scan(scored, start, jnp.arange(ROUNDS + (SHAPE_ROUNDS if varying else 0)))
    return eqx.tree_at(lambda s: (s.noise, s.shape), sde, (noise, shape))


def _gain(score: Array, known: Array, precision: Array) -> Float[Array, ""]:
    """Return what the log evidence gains by more weights than that of the first power."""
    level = jnp.maximum(known[0, 0], 1e-6)
    factor = jnp.linalg.cholesky(known + jnp.diag(precision + 1e-6))
    white = jax.scipy.linalg.solve_triangular(factor, score, lower=True)
    size = 2 * jnp.sum(jnp.log(jnp.diagonal(factor))) - jnp.log(level) - jnp.sum(jnp.log(precision[1:]))
    return 0.5 * (white @ white - score[0] ** 2 / level - size)


def _scores(gap: Gap, real: Bool[Array, " gaps"], sde: BasisSDE, law: Law, inflation: Levels) -> Scores:
    """Return, per gap, the slope of the log-likelihood by the logarithm of each level and its expected square; and the
    powers where the gap begins."""

    def covariance(levels: Levels) -> tuple[Array, tuple[Array, Array]]:
        found, residual = law.seen(eqx.tree_at(lambda s: s.noise, sde, jnp.exp(levels)), gap)
        return matmul(found.factor, transposed(found.factor)), (residual, found.factor)

    slopes, (residual, factor) = jax.jacfwd(covariance, has_aux=True)(jnp.log(sde.noise))
    white = solve_lower(factor, residual * inflation)
    size = len(sde.noise)
    columns = [solve_lower(factor, jnp.broadcast_to(unit, residual.shape)) for unit in jnp.eye(size)]
    inverse = jnp.stack(columns, axis=-1)
    shares = [matmul(matmul(inverse, slopes[..., k]), transposed(inverse)) for k in range(size)]
    share = jnp.stack(shares)  # what each level adds to the whitened covariance
    trace = jnp.trace(share, axis1=-2, axis2=-1)
    score = 0.5 * (jnp.einsum("knsij,nsi,nsj->kn", share, white, white) - trace.sum(-1))
    real = real & jnp.all(jnp.isfinite(score), axis=0)
    known = 0.5 * jnp.einsum("knsij,lnsij->kln", share, share)
    powers = sde.powers(gap.y, gap.control(gap.t, gap.y))[:, 0]
    return jnp.where(real, score, 0.0), jnp.where(real, known, 0.0), powers
