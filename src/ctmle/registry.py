"""Names for parts: each maps to an import path, so that a wrong name is answered without loading the part."""

from collections.abc import Sequence
from difflib import get_close_matches
from functools import cached_property
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any


class Registry:
    """Names of one kind of part: those of this package, those registered, and entry points of other packages."""

    def __init__(self, kind: str, group: str, names: dict[str, str]):
        self.kind, self.group = kind, group
        self.registered = dict(names)

    def register(self, name: str, path: str) -> None:
        """Add a part by its import path "module:Name". Raises ValueError if the name is taken."""
        if self.registered.get(name, path) != path:
            raise ValueError(f"{self.kind} '{name}' is registered already as {self.registered[name]}")
        self.registered[name] = path

    @cached_property
    def installed(self) -> dict[str, str]:
        """Entry points of the group `ctmle.<kind>s` in installed packages."""
        return {point.name: point.value for point in entry_points(group=self.group)}

    @property
    def paths(self) -> dict[str, str]:
        return {**self.installed, **self.registered}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.paths)

    def check(self, name: str) -> str:
        """Return `name` if it is known. Raises ValueError, with a near match, for any other."""
        if name not in self.paths:
            raise ValueError(no_such(self.kind, name, self.names))
        return name

    def load(self, name: str) -> Any:
        """Import the part of that name."""
        return import_path(self.paths[self.check(name)])

    def name_of(self, part: type) -> str | None:
        """Return the name of a class, if it has one."""
        path = f"{part.__module__}:{part.__qualname__}"
        return next((name for name, known in self.paths.items() if known == path), None)


def import_path(path: str) -> Any:
    """Import "module:Name"."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


def no_such(kind: str, name: object, names: Sequence[str]) -> str:
    """Return the sentence about an unknown name, with a near match."""
    near = get_close_matches(str(name), names, n=1)
    hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(names)}"
    return f"no {kind} is called '{name}': {hint}"


ENVIRONMENTS = Registry(
    "environment",
    "ctmle.environments",
    {
        "pendulum": "ctmle.envs.pendulum:Pendulum",
        "cartpole": "ctmle.envs.cartpole:CartPole",
        "cartpole-swingup": "ctmle.envs.cartpole:CartPoleSwingUp",
        "cartpole-pilco": "ctmle.envs.cartpole:CartPolePilco",
        "acrobot": "ctmle.envs.acrobot:Acrobot",
        "linear-quadratic": "ctmle.envs.linear_quadratic:LinearQuadratic",
    },
)
AGENTS = Registry(
    "agent",
    "ctmle.agents",
    {
        "ct-mle": "ctmle.agents.ct_mle:CTMLE",
        "enode": "ctmle.agents.enode:ENODE",
        "sac-tacos": "ctmle.agents.sac_tacos.agent:SacTacos",
    },
)
SCHEDULES = Registry(
    "schedule",
    "ctmle.schedules",
    {
        "equidistant": "ctmle.schedules.grid:Equidistant",
        "uniform": "ctmle.schedules.random_gaps:UniformGaps",
        "exponential": "ctmle.schedules.random_gaps:ExponentialGaps",
        "grid": "ctmle.schedules.grid:Grid",
    },
)
LEARNERS = Registry(
    "model",
    "ctmle.models",
    {
        "ensemble": "ctmle.models.sde_learner:SDELearner",
        "basis": "ctmle.models.basis_learner:BasisLearner",
        "ode": "ctmle.models.ode_learner:ODELearner",
    },
)
OBJECTIVES = Registry(
    "objective",
    "ctmle.objectives",
    {
        "likelihood": "ctmle.models.objectives:NegativeLogLikelihood",
        "score-matching": "ctmle.models.objectives:SlicedScoreMatching",
    },
)
LAWS = Registry(
    "law",
    "ctmle.laws",
    {
        "bridge": "ctmle.models.bridge:Bridge",
        "moments": "ctmle.models.moments:LinearisedMoments",
        "euler": "ctmle.models.laws:EulerCovariance",
    },
)
BELIEFS = Registry(
    "belief",
    "ctmle.beliefs",
    {
        "posterior": "ctmle.models.belief:MeanAndSamples",
        "sample": "ctmle.models.belief:OneSample",
        "set": "ctmle.models.belief:ConfidenceSet",
        "penalty": "ctmle.models.belief:Penalty",
    },
)
REWARDS = Registry(
    "reward",
    "ctmle.rewards",
    {
        "known": "ctmle.models.world:KnownReward",
        "learned": "ctmle.models.learned_reward:LearnedReward",
    },
)
SURVIVALS = Registry(
    "survival",
    "ctmle.survivals",
    {
        "never-ends": "ctmle.models.world:NeverEnds",
        "given": "ctmle.models.world:GivenSurvival",
        "learned": "ctmle.models.learned_survival:LearnedSurvival",
    },
)

REGISTRIES = (ENVIRONMENTS, AGENTS, SCHEDULES, LEARNERS, OBJECTIVES, LAWS, BELIEFS, REWARDS, SURVIVALS)
