"""Settings of `ctmle exact`: the paper's exact algorithm on classes that can be enumerated."""

import math
from dataclasses import dataclass, replace
from typing import Literal

import tyro

ClassName = Literal["hidden-arm", "speed", "rotation", "volatility", "feedback", "saturated"]


@dataclass(frozen=True)
class ExactConfig:
    """Play exact CT-MLE (Algorithms 1 and 2 of the paper) on a finite class of SDEs, and show the theory at work.

    Writes a folder with its settings, tables and plots: regret against N for every noise level, coverage and size of
    the confidence sets, regret against the gap with and without random looks at equal numbers of looks.
    """

    model_class: tyro.conf.Positional[ClassName] = "hidden-arm"
    """Which class of models and policies (docs/exact.md says what each shows)."""
    noises: tuple[float, ...] = ()
    """Noise levels; none: the class's own, from almost nothing to large."""
    separations: tuple[float, ...] = ()
    """Hidden arm only: distances e between models, of which the worst counts; none: ten from 0.006 to 0.4."""
    gap: float = 1.0
    """[Delta] Seconds between two grid looks in the study of regret against N (the horizon is 4 s)."""
    gaps: tuple[float, ...] = (0.5, 1.0, 2.0)
    """Gaps of the study of regret against the gap."""
    episodes: int = 1000
    """[N] Episodes of every run."""
    seeds: int = 200
    """Independent runs of every instance in the study of regret against N."""
    gap_seeds: int = 50
    """Independent runs of every instance in the study of regret against the gap."""
    random_looks: bool = True
    """Take one more look per gap at a uniformly random time (Algorithm 2)."""
    chained: bool = False
    """Score grid look to random look to grid look in one likelihood instead of the paper's two."""
    beta: Literal["theory", "ville"] | float = "theory"
    """[beta] Radius of the sets: 5 log(N |F||G| / delta), log(2 |F||G| / delta), or a number of your own."""
    delta: float = 0.1
    """[delta] How often the truth may be missed."""
    seed: int = 0
    """Seed of everything random."""
    out: str | None = None
    """Folder for the results; none: runs/exact-CLASS-seed with a number if that exists."""


OWN_NOISES: dict[str, tuple[float, ...]] = {
    "hidden-arm": (0.002, 0.02, 0.05, 0.15, 0.4),
    "speed": (0.003, 0.03, 0.1, 0.3),
    "rotation": (0.01, 0.1, 0.3),
    "volatility": (0.05, 0.1, 0.2, 0.4),
    "feedback": (0.05, 0.2, 0.5),
    "saturated": (0.2, 0.4, 0.8),
}
OWN_SEPARATIONS = (0.006, 0.01, 0.016, 0.025, 0.04, 0.06, 0.1, 0.15, 0.25, 0.4)
HORIZON = 4.0
"""T of every class, in seconds."""


def resolved(config: ExactConfig) -> ExactConfig:
    """Checked, with the class's own noises and separations where none were given."""
    _check(config)
    separations = OWN_SEPARATIONS if config.model_class == "hidden-arm" else ()
    return replace(
        config,
        noises=config.noises or OWN_NOISES[config.model_class],
        separations=config.separations or separations,
    )


def _check(config: ExactConfig) -> None:
    if config.separations and config.model_class != "hidden-arm":
        raise ValueError(f"--separations belong to the hidden arm: leave them out for {config.model_class}")
    if not config.gaps:
        raise ValueError("--gaps must be one or more positive numbers")
    for name in ("noises", "separations", "gaps"):
        values = getattr(config, name)
        if not all(0 < value < math.inf for value in values):
            raise ValueError(f"--{name} must be positive numbers, not {' '.join(map(str, values))}")
        if len(set(values)) < len(values):
            raise ValueError(f"--{name} has the same number twice: give each once")
    for gap in (*config.gaps, config.gap):
        if not 0 < gap <= HORIZON:
            raise ValueError(f"a gap must lie between 0 and the horizon of {HORIZON:g} s, not {gap}")
    for name, least in (("episodes", 10), ("seeds", 2), ("gap_seeds", 2), ("seed", 0)):
        if getattr(config, name) < least:
            option = name.replace("_", "-")
            raise ValueError(f"--{option} must be a whole number of at least {least}, not {getattr(config, name)}")
    if not 0 < config.delta < 1:
        raise ValueError(f"--delta must lie strictly between 0 and 1, not {config.delta}")
    if not isinstance(config.beta, str) and not 0 <= config.beta < math.inf:
        raise ValueError(f"--beta must be theory, ville or a number of at least 0, not {config.beta}")
    if config.chained and not config.random_looks:
        raise ValueError("--chained is about random looks: leave out --no-random-looks, or --chained")
