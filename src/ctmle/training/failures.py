"""NaN and inf: the error that names where one arose, and how often training retries before it gives up."""

import logging
from collections.abc import Iterable

import numpy as np

SMALLER = 0.3
"""Each failure multiplies the learning rates by this until the episode ends."""

MOST_RETRIES = 4
"""Failures per episode before the run stops."""

log = logging.getLogger("ctmle")


class NotFinite(ValueError):  # noqa: N818 - it names what was found
    """A quantity became NaN or inf. The message says which, where, at which state, and what may help."""

    def __init__(self, quantity: str, where: str, hint: str, state: Iterable[float] | None = None):
        at = "" if state is None else f", at state ({', '.join(f'{value:.4g}' for value in state)})"
        super().__init__(f"{quantity} is NaN or inf {where}{at}: {hint}")


def warn_or_give_up(quantity: str, where: str, evidence: np.ndarray, retries: int) -> None:
    """Warn that training retries from the last good state; raise NotFinite if it has done so too often."""
    last = retries == MOST_RETRIES
    problem = NotFinite(
        quantity,
        where,
        f"retried {retries} times with smaller steps; smaller learning rates or a larger floor of the noise may help"
        if last
        else f"retrying from the last good state with smaller steps ({retries + 1} of {MOST_RETRIES} times)",
        evidence if np.all(np.isfinite(evidence)) else None,
    )
    if last:
        raise problem
    log.warning("%s", problem)
