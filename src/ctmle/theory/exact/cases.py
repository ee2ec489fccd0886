"""Which instances `ctmle exact` plays, and how they are looked at."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import jax.numpy as jnp

from ctmle.config.exact import HORIZON, ExactConfig
from ctmle.schedules.grid import Equidistant
from ctmle.theory.classes import FiniteClass
from ctmle.theory.confidence import theory_beta, ville_beta
from ctmle.theory.exact.agent import ExactCTMLE
from ctmle.theory.examples import feedback, hidden_arm, rotation, speed, volatility
from ctmle.theory.precision import in_double
from ctmle.theory.saturated import saturated

CLASSES: dict[str, Callable[[float, float, float], FiniteClass]] = {
    "hidden-arm": lambda noise, gap, separation: hidden_arm(noise, separation),
    "speed": lambda noise, gap, separation: speed(noise),
    "rotation": lambda noise, gap, separation: rotation(noise, gap),
    "volatility": lambda noise, gap, separation: volatility(noise),
    "feedback": lambda noise, gap, separation: feedback(noise),
    "saturated": lambda noise, gap, separation: saturated(noise),
}
"""From noise, gap and separation, of which a class takes what it has."""

ONLY_ONE = (1.0,)
"""The separations of a class that has none."""


@dataclass(frozen=True)
class Looking:
    """A way of spending looks on an episode."""

    name: str
    random_looks: bool
    chained: bool = False
    refinement: int = 1
    """Gaps of the grid per `gap`."""

    def schedule(self, gap: float) -> Equidistant:
        return Equidistant(gap / self.refinement, random_looks=self.random_looks)

    def looks(self, gap: float) -> int:
        """Looks per episode after the start."""
        return math.ceil(HORIZON * self.refinement / gap - 1e-9) * (2 if self.random_looks else 1)


PAPER = Looking("random looks", random_looks=True)
CHAINED = Looking("chained random looks", random_looks=True, chained=True)
GRID = Looking("grid", random_looks=False)
FINER_GRID = Looking("grid of half the gap", random_looks=False, refinement=2)
EQUAL_LOOKS = (PAPER, CHAINED, FINER_GRID)
"""Ways that cost the same number of looks at the same gap."""


@dataclass(frozen=True)
class Case:
    """Instances that are played together: one noise level, one gap, one way of looking, every separation."""

    study: str
    model_class: str
    noise: float
    gap: float
    looking: Looking
    separations: tuple[float, ...]
    seeds: int

    def instances(self) -> list[FiniteClass]:
        return [_instance(self.model_class, self.noise, self.gap, separation) for separation in self.separations]


@in_double
def agents_of(case: Case, config: ExactConfig) -> list[ExactCTMLE]:
    """One agent per separation."""
    return [
        ExactCTMLE(models, jnp.asarray(beta_of(config, models.models)), case.looking.chained)
        for models in case.instances()
    ]


def beta_of(config: ExactConfig, models: int) -> float:
    if config.beta == "theory":
        return theory_beta(config.episodes, math.log(models), config.delta)
    if config.beta == "ville":
        return ville_beta(models, config.delta)
    return float(config.beta)


def cases_of(config: ExactConfig) -> list[Case]:
    """Regret against N at every noise level; then regret against the gap at the lowest and the highest one."""
    noises, separations = sorted(config.noises), config.separations or ONLY_ONE
    own = GRID if not config.random_looks else CHAINED if config.chained else PAPER

    def case(study: str, noise: float, gap: float, looking: Looking, seeds: int) -> Case:
        return Case(study, config.model_class, noise, gap, looking, separations, seeds)

    return [case("episodes", noise, config.gap, own, config.seeds) for noise in noises] + [
        case("gap", noise, gap, looking, config.gap_seeds)
        for gap in sorted(config.gaps)
        for looking in EQUAL_LOOKS
        for noise in dict.fromkeys((noises[0], noises[-1]))
    ]


@lru_cache(maxsize=256)
def _instance(model_class: str, noise: float, gap: float, separation: float) -> FiniteClass:
    return CLASSES[model_class](noise, gap, separation)
