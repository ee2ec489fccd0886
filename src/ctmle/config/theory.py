"""Settings of `ctmle theory ...`: the paper's numbers as a calculator."""

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from ctmle.config.exact import ClassName

LinearClassName = Literal["hidden-arm", "speed", "rotation", "volatility", "feedback"]


@dataclass(frozen=True)
class VarianceQuestion:
    """Total variance Var^u of every policy of a class, exact and by simulation; or of a trained policy (--run)."""

    model_class: tyro.conf.Positional[ClassName] = "hidden-arm"
    """Which class of models and policies."""
    noise: float = 0.2
    """Noise level of the class."""
    separation: float = 0.1
    """Hidden arm only: distance e between models."""
    gap: float = 1.0
    """Rotation only: the gap that its speeds alias with."""
    run: str | None = None
    """A run folder of `ctmle train`: the variance of its final policy's reward, divided by its largest integral."""
    samples: int = 2000
    """Simulated trajectories."""
    step: float = 0.02
    """Seconds between the points at which a simulated reward is taken."""
    seed: int = 0
    """Seed of the simulation."""


@dataclass(frozen=True)
class VarianceBoundQuestion:
    """The bound of the paper's proposition on Var^u: with the right constant, as printed, and a tighter one."""

    reward_lipschitz: float
    """[L_b] of the reward."""
    drift_lipschitz: float
    """[L_f] of the drift."""
    diffusion: float
    """[G] Largest Frobenius norm of the diffusion."""
    horizon: float
    """[T] in seconds."""
    policy_lipschitz: float = 0.0
    """[L_u] of the policy; 0 if the drift above is that of the closed loop."""


@dataclass(frozen=True)
class HellingerQuestion:
    """Squared Hellinger distance of two normal laws on a line, in closed form and by quadrature."""

    mean_p: float = 0.0
    """Mean of the first."""
    variance_p: float = 1.0
    """Variance of the first."""
    mean_q: float = 1.0
    """Mean of the second."""
    variance_q: float = 1.0
    """Variance of the second."""


@dataclass(frozen=True)
class EluderQuestion:
    """Eluder dimension of a class at points (policy, state, gap): exact where few points matter, else greedy."""

    model_class: tyro.conf.Positional[LinearClassName] = "hidden-arm"
    """Which class of models and policies."""
    noise: float = 0.2
    """Noise level of the class."""
    separation: float = 0.1
    """Hidden arm only: distance e between models."""
    gaps: tuple[float, ...] = (0.25, 1.0)
    """Gaps at which models are compared (rotation: the first is the one its speeds alias with)."""
    states: tuple[float, ...] = (0.0, 1.0)
    """States at which models are compared (first coordinate; the others are 0)."""
    epsilon: float = 0.01
    """[epsilon] What counts as small; the theorem takes 1 over the number of looks."""


@dataclass(frozen=True)
class BracketingQuestion:
    """Bracketing numbers and eluder bounds of the paper's two quadratic classes."""

    dimension: int = 2
    """[d] Features."""
    bound: float = 2.0
    """[B] Bound on the features' norms."""
    epsilon: float = 0.01
    """[epsilon] Width of a bracket."""
    drifts: int = 9
    """|F| of the finite class."""
    diffusions: int = 9
    """|G| of the finite class."""


@dataclass(frozen=True)
class BetaQuestion:
    """Radius of the confidence sets of a finite class."""

    models: int = 81
    """|F||G|."""
    episodes: int = 1000
    """[N]"""
    delta: float = 0.1
    """[delta]"""


@dataclass(frozen=True)
class BoundQuestion:
    """Right-hand side of the theorem's regret bound, up to its constant."""

    variance: float
    """Mean of Var^{u_n} over episodes."""
    gap: float
    """[Delta] of an equidistant grid."""
    horizon: float
    """[T]"""
    dimension: float
    """[d] Eluder dimension at both of the theorem's scales."""
    episodes: int = 1000
    """[N]"""
    models: int = 81
    """|F||G|, for beta."""
    delta: float = 0.1
    """[delta]"""
    reward_bound: float = 1.0
    """[b_max] Largest reward per second."""


@dataclass(frozen=True)
class ComplexityQuestion:
    """lambda-total complexity against the gap: a table and a plot."""

    variance: float
    """[Var] Largest total variance, at most 1."""
    horizon: float
    """[T] in seconds."""
    epsilon: float
    """[epsilon] How far from optimal the policy may be."""
    dimension: float
    """[d] At least the eluder dimension and beta."""
    look_price: float
    """[lambda] A look costs lambda, an episode 1 - lambda."""
    random_looks: bool = True
    """Count the random look in every gap too; the paper's formula does not."""
    reward_bound: float = 1.0
    """[b_max] Largest reward per second."""
    out: str | None = None
    """Picture of the trade-off (PNG); none: runs/complexity.png or runs/plan.png."""


@dataclass(frozen=True)
class PlanQuestion(ComplexityQuestion):
    """Which gap, how many episodes, how many looks: the cheapest plan by the paper's lambda-total complexity.

    Up to the constants and logarithms that the bound hides: compare plans by it, and do not read N as a promise.
    """


@dataclass(frozen=True)
class QuadraticQuestion:
    """The quadratic density of the construction example: simulate its SDE and compare."""

    times: tuple[float, ...] = (0.3, 0.8, 1.5, 2.5)
    """Times at which histograms are drawn, between 0 and pi."""
    samples: int = 20000
    """Simulated trajectories."""
    step: float = 1e-3
    """Longest step of the simulation."""
    seed: int = 0
    """Seed of the simulation."""
    out: str | None = None
    """Picture (PNG); none: runs/quadratic.png."""


@dataclass(frozen=True)
class OUQuestion:
    """Truncation error of the spectral expansion of the Ornstein-Uhlenbeck process."""

    time: float = 0.5
    """[t]"""
    start: float = 1.0
    """[y_0]"""
    rate: float = 1.0
    """[gamma] Mean-reversion rate."""
    noise: float = 1.0
    """Diffusion."""
    terms: tuple[int, ...] = (1, 2, 5, 10, 20, 40)
    """Numbers of terms."""


Question = (
    Annotated[VarianceQuestion, tyro.conf.subcommand("variance")]
    | Annotated[VarianceBoundQuestion, tyro.conf.subcommand("variance-bound")]
    | Annotated[HellingerQuestion, tyro.conf.subcommand("hellinger")]
    | Annotated[EluderQuestion, tyro.conf.subcommand("eluder")]
    | Annotated[BracketingQuestion, tyro.conf.subcommand("bracketing")]
    | Annotated[BetaQuestion, tyro.conf.subcommand("beta")]
    | Annotated[BoundQuestion, tyro.conf.subcommand("bound")]
    | Annotated[ComplexityQuestion, tyro.conf.subcommand("complexity")]
    | Annotated[PlanQuestion, tyro.conf.subcommand("plan")]
    | Annotated[QuadraticQuestion, tyro.conf.subcommand("quadratic")]
    | Annotated[OUQuestion, tyro.conf.subcommand("ou")]
)


@dataclass(frozen=True)
class TheoryCommand:
    """The numbers of the paper's theory as a calculator: how many looks, how many episodes, which gap, and why."""

    question: tyro.conf.OmitArgPrefixes[tyro.conf.OmitSubcommandPrefixes[Question]]
