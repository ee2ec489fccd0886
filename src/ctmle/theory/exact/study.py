"""Exact CT-MLE played on many instances, seeds and ways of looking, and tables of the results."""

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, lru_cache
from threading import Event, Lock
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import ndtri
from scipy.stats import binomtest

from ctmle.schedules.grid import Equidistant
from ctmle.theory.exact.agent import ExactCTMLE, play, stack
from ctmle.theory.exact.classes import FiniteClass
from ctmle.theory.exact.examples import CLASSES, HORIZON
from ctmle.training.double import in_double

Curve = Float[np.ndarray, " episodes"]

CHUNK = 50
"""Seeds per compiled call, so that all cases of the same kind use one compiled program."""


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
"""Ways of looking that need the same number of looks at the same gap."""


@dataclass(frozen=True)
class ExactCase:
    """Instances that are played together: one noise level, one gap, one way of looking, every separation."""

    study: str
    model_class: str
    noise: float
    gap: float
    looking: Looking
    separations: tuple[float, ...]
    """Separations of the hidden arm; a single number, which is ignored, for all other classes."""
    seeds: int

    def __post_init__(self) -> None:
        if not 0 < self.gap <= HORIZON:
            raise ValueError(f"a gap must lie between 0 and the horizon of {HORIZON:g} s, not {self.gap}")

    def instances(self) -> list[FiniteClass]:
        return [_instance(self.model_class, self.noise, self.gap, separation) for separation in self.separations]


@dataclass(frozen=True)
class CaseResult:
    """Results of a case: one row per separation, one column per seed."""

    case: ExactCase
    beta: float
    regret: Float[np.ndarray, "separations seeds episodes"]
    """Cumulative regret."""
    variance: Float[np.ndarray, "separations seeds episodes"]
    """Cumulative sum of Var^{u_n}."""
    grid_covers: Bool[np.ndarray, "separations seeds episodes"]
    """True if the truth was in P_i in all episodes so far."""
    extra_covers: Bool[np.ndarray, "separations seeds episodes"]
    """True if the truth was in hat-P_i in all episodes so far."""
    grid_size: Int[np.ndarray, "separations seeds episodes"]
    both_size: Int[np.ndarray, "separations seeds episodes"]
    empty: Float[np.ndarray, "separations seeds"]
    """Share of episodes in which the sets had no model in common."""

    @property
    def covers(self) -> Bool[np.ndarray, "separations seeds episodes"]:
        """True if the truth was in both sets in all episodes so far."""
        return self.grid_covers & self.extra_covers


Radius = Callable[[int], float]
"""beta as a function of the number of models."""
Report = Callable[[int, int, ExactCase], None]
"""Function of the number of cases that are done, the number of all cases, and the case that was done last."""


def play_cases(cases: list[ExactCase], episodes: int, radius: Radius, seed: int, report: Report) -> list[CaseResult]:
    """Play every case and call `report(done, total, case)` after each.

    Threads suffice because compiled programs release the interpreter's lock and use about one core each. Cases that
    share a compiled program share a thread, so nothing is compiled twice.
    """
    results: dict[ExactCase, CaseResult] = {}
    lock, stop = Lock(), Event()

    def play_in_turn(alike: list[ExactCase]) -> None:
        for case in alike:
            if stop.is_set():
                return
            result = play_case(case, episodes, radius, seed)
            with lock:
                results[case] = result
                report(len(results), len(cases), case)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            list(pool.map(play_in_turn, _alike(cases)))
        finally:
            stop.set()  # after an error or Ctrl-C no thread starts another case
    return [results[case] for case in cases]


@in_double
def play_case(case: ExactCase, episodes: int, radius: Radius, seed: int) -> CaseResult:
    """Play all seeds of a case. All cases use the same keys, so ways of looking share their randomness if possible."""
    looking, instances = case.looking, case.instances()
    beta = radius(instances[0].models)
    agents = stack([ExactCTMLE(models, jnp.asarray(beta), looking.chained) for models in instances])
    keys = jax.random.split(jax.random.key(seed), -(-case.seeds // CHUNK) * CHUNK)
    chunks = [keys[i : i + CHUNK] for i in range(0, case.seeds, CHUNK)]
    plays = [play(agents, looking.schedule(case.gap), episodes, chunk) for chunk in chunks]
    whole = jax.tree.map(lambda *parts: np.concatenate(parts, axis=1)[:, : case.seeds], *plays)
    return CaseResult(
        case=case,
        beta=beta,
        regret=np.cumsum(whole.regret, axis=-1),
        variance=np.cumsum(whole.variance, axis=-1),
        grid_covers=np.logical_and.accumulate(whole.grid_covers, axis=-1),
        extra_covers=np.logical_and.accumulate(whole.extra_covers, axis=-1),
        grid_size=whole.grid_size,
        both_size=whole.both_size,
        empty=whole.empty.mean(axis=-1),
    )


def _alike(cases: list[ExactCase]) -> list[list[ExactCase]]:
    """Group cases by compiled program, largest groups first."""
    groups: dict[object, list[ExactCase]] = {}
    for case in cases:
        groups.setdefault((case.gap, case.looking), []).append(case)
    return sorted(groups.values(), key=lambda group: -sum(case.seeds for case in group))


@lru_cache(maxsize=256)
def _instance(model_class: str, noise: float, gap: float, separation: float) -> FiniteClass:
    return CLASSES[model_class](noise, gap, separation)


def worst_case(result: CaseResult) -> tuple[Curve, Curve, Int[np.ndarray, " episodes"]]:
    """Worst mean regret over the separations after each episode, half its 95% interval, and the worst separation."""
    means, widths = mean_and_half_width(result.regret, axis=1)
    worst = np.argmax(means, axis=0)
    episodes = np.arange(means.shape[1])
    return means[worst, episodes], widths[worst, episodes], worst


def slope(curve: Curve) -> float:
    """Log-log slope over the last nine tenths: 0 if regret stops growing, 1/2 if it grows as sqrt(N)."""
    n = np.arange(1, len(curve) + 1)
    late = n >= max(2, len(curve) // 10)
    fitted = np.polyfit(np.log(n[late]), np.log(np.maximum(curve[late], 1e-12)), 1)[0]
    return round(float(fitted), 6) + 0.0  # a flat curve has slope 0, not -0


def rows(results: list[CaseResult]) -> list[dict[str, Any]]:
    """Table with one row per instance."""
    return [_row(result, i) for result in results for i in range(len(result.case.separations))]


def worst_rows(results: list[CaseResult]) -> list[dict[str, Any]]:
    """Table with one row per case: the separation with the largest regret after the last episode."""
    found = []
    for result in results:
        mean, _, worst = worst_case(result)
        found.append({**_row(result, int(worst[-1])), "slope": _short(slope(mean))})
    return found


def _row(result: CaseResult, i: int) -> dict[str, Any]:
    case = result.case
    seeds, episodes = result.regret.shape[1:]
    mean, half = mean_and_half_width(result.regret[i, :, -1], axis=0)
    spent = float(result.variance[i, :, -1].mean())
    covered = result.covers[i, :, -1]
    low, high = wilson(int(covered.sum()), seeds)
    return {
        "study": case.study,
        "class": case.model_class,
        "noise": case.noise,
        "separation": case.separations[i] if len(case.separations) > 1 else "",
        "gap": case.gap,
        "looking": case.looking.name,
        "looks_per_episode": case.looking.looks(case.gap),
        "episodes": episodes,
        "seeds": seeds,
        "beta": _short(result.beta),
        "regret": _short(mean),
        "regret_low": _short(mean - half),
        "regret_high": _short(mean + half),
        "mean_variance": _short(spent / episodes),
        "regret_over_sqrt_beta_variance": _short(mean / math.sqrt(result.beta * spent)) if spent > 0 else "",
        "grid_coverage": _short(result.grid_covers[i, :, -1].mean()),
        "random_coverage": _short(result.extra_covers[i, :, -1].mean()),
        "coverage": _short(covered.mean()),
        "coverage_low": _short(low),
        "coverage_high": _short(high),
        "models_left": _short(result.both_size[i, :, -1].mean()),
        "empty_share": _short(result.empty[i].mean()),
    }


@cache
def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Wilson's 95% interval of a share, which stays inside [0, 1]."""
    interval = binomtest(successes, trials).proportion_ci(method="wilson")
    return interval.low, interval.high


def mean_and_half_width(samples: Float[np.ndarray, "..."], axis: int) -> tuple[Any, Any]:
    """Mean over an axis of independent samples and half the width of its 95% interval."""
    error = samples.std(axis=axis, ddof=1) / math.sqrt(samples.shape[axis])
    return samples.mean(axis=axis), ndtri(0.975) * error


def _short(number: float) -> float:
    """Round to six significant digits: enough for a table, and equal on every machine."""
    return float(f"{float(number):.6g}")
