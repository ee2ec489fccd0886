"""Likelihood confidence sets (alg:alg1, alg:alg3) and their radius beta."""

import math

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def confidence_set(log_likelihoods: Float[Array, " models"], beta: Float[Array, ""]) -> Bool[Array, " models"]:
    """P_n: the models whose log-likelihood is within beta of the largest."""
    return log_likelihoods >= jnp.max(log_likelihoods) - beta


def theory_beta(episodes: int, log_bracketing: float, delta: float) -> float:
    """beta = 5 log(N C / delta) of the theorem; C is the bracketing number, for a finite class |F||G|."""
    _check_delta(delta)
    if episodes < 1:
        raise ValueError(f"episodes must be at least 1, not {episodes}")
    if log_bracketing < 0:
        raise ValueError(f"a bracketing number is at least 1, so its logarithm cannot be {log_bracketing}")
    return 5 * (math.log(episodes) + log_bracketing - math.log(delta))


def ville_beta(models: int, delta: float, sets: int = 2) -> float:
    """beta = log(sets M / delta): enough for coverage of a finite class at all times, by Ville's inequality.

    A likelihood ratio against the truth is a martingale that starts at 1: it ever reaches sets M / delta with
    probability at most delta / (sets M); a union over models and sets does the rest. Free of N, and about ten times
    smaller than the theory's.
    """
    _check_delta(delta)
    if models < 1 or sets not in (1, 2):
        raise ValueError(f"there must be at least one model and one or two sets, not {models} and {sets}")
    return math.log(sets * models / delta)


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie strictly between 0 and 1, not {delta}")
