"""What an agent does about a number that is not one: go back, take smaller steps, and give up in the end."""

import logging
from typing import Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from ctmle.dynamics.loop import NO_CULPRIT, Chunk
from ctmle.finite import NotFinite

SMALLER = 0.3
"""Each setback multiplies the learning rates by this until the episode ends."""

MOST = 4
"""Setbacks per episode before the run stops."""

log = logging.getLogger("ctmle")


def pace(setbacks: int) -> float:
    """What the learning rates are multiplied by."""
    return SMALLER**setbacks


def another_try(key: PRNGKeyArray, setbacks: int) -> PRNGKeyArray:
    """The randomness of a piece of work; a second try at it draws anew."""
    return key if setbacks == 0 else jax.random.fold_in(key, setbacks)


def went_wrong(chunk: Chunk[Any], metrics: tuple[str, ...], *, phase: str, episode: int, setbacks: int) -> bool:
    """Whether the chunk met a number that is not one. Raises NotFinite, which names it, when setbacks are spent."""
    if int(chunk.culprit) == NO_CULPRIT:
        return False
    evidence = np.asarray(chunk.evidence, float)
    trouble = NotFinite(
        (*metrics, "a parameter")[int(chunk.culprit)],
        f"in the {phase} phase of episode {episode}, update {int(chunk.step)}",
        f"went back and took smaller steps {setbacks} times; smaller rates or a larger floor of the noise may help"
        if setbacks == MOST
        else f"going back to the last good state with smaller steps ({setbacks + 1} of {MOST} times)",
        evidence if np.all(np.isfinite(evidence)) else None,
    )
    if setbacks == MOST:
        raise trouble
    log.warning("%s", trouble)
    return True
