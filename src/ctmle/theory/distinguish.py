"""How well the models of a class can be told from the truth: the functions psi_{f,g}(u, x, t) of def:eluder."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ctmle.theory.classes import LinearClass
from ctmle.theory.hellinger import gaussian_hellinger2
from ctmle.theory.precision import in_double


@in_double
def hellinger_table(
    models: LinearClass, states: Float[np.ndarray, "states size"], gaps: Float[np.ndarray, " gaps"]
) -> Float[np.ndarray, "models points"]:
    """psi[model, point] = H^2(p_model || p_truth) at every point (policy, state, gap), policies slowest."""
    if np.any(gaps <= 0):
        raise ValueError("gaps must be positive: over a gap of 0 there is no density")
    which, truth = np.asarray(models.which), int(models.truth)
    tables = []
    for policy in range(models.policies):
        law = models.laws[policy].transition(
            jnp.broadcast_to(jnp.asarray(gaps)[:, None], (len(gaps), _variants(models)))
        )
        covariance = np.asarray(law.covariance)
        means = np.stack([np.asarray(law.mean(jnp.asarray(state))) for state in states])
        true = which[policy, truth]
        per_variant = gaussian_hellinger2(
            means, np.broadcast_to(covariance, (*means.shape, means.shape[-1])),
            np.broadcast_to(means[:, :, true, None], means.shape),
            np.broadcast_to(covariance[:, true, None], (*means.shape, means.shape[-1])),
        )  # fmt: skip
        tables.append(per_variant[..., which[policy]].reshape(-1, models.models).T)
    return np.maximum(np.concatenate(tables, axis=1), 0.0)


def _variants(models: LinearClass) -> int:
    return models.laws.push.shape[1]
