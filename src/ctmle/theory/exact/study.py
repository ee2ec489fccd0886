"""Exact CT-MLE played on many instances, seeds and ways of looking, in as many threads as there are cores."""

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from threading import Event, Lock

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from ctmle.schedules.grid import Equidistant
from ctmle.theory.exact.agent import ExactCTMLE, play, stack
from ctmle.theory.exact.classes import FiniteClass
from ctmle.theory.exact.examples import CLASSES, HORIZON
from ctmle.theory.exact.precision import in_double

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


def play_cases(
    cases: list[ExactCase], episodes: int, radius: Radius, seed: int, report: Callable[[int, ExactCase], None]
) -> list[CaseResult]:
    """Play every case and call `report(done, case)` after each.

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
                report(len(results), case)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            for job in [pool.submit(play_in_turn, alike) for alike in _alike(cases)]:
                job.result()
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    return [results[case] for case in cases]


def play_case(case: ExactCase, episodes: int, radius: Radius, seed: int) -> CaseResult:
    """Play all seeds of a case. All cases use the same keys, so ways of looking share their randomness if possible."""
    agents, schedule = _agents(case, radius), case.looking.schedule(case.gap)
    keys = jax.random.split(jax.random.key(seed), -(-case.seeds // CHUNK) * CHUNK)
    chunks = [keys[i : i + CHUNK] for i in range(0, case.seeds, CHUNK)]
    plays = [jax.tree.map(np.asarray, play(agents, schedule, episodes, chunk)) for chunk in chunks]
    whole = jax.tree.map(lambda *parts: np.concatenate(parts, axis=1)[:, : case.seeds], *plays)
    return CaseResult(
        case=case,
        beta=radius(case.instances()[0].models),
        regret=np.cumsum(whole.regret, axis=-1),
        variance=np.cumsum(whole.variance, axis=-1),
        grid_covers=np.logical_and.accumulate(whole.grid_covers, axis=-1),
        extra_covers=np.logical_and.accumulate(whole.extra_covers, axis=-1),
        grid_size=whole.grid_size,
        both_size=whole.both_size,
        empty=whole.empty.mean(axis=-1),
    )


@in_double
def _agents(case: ExactCase, radius: Radius) -> ExactCTMLE:
    """Stack of one agent per separation."""
    chained = case.looking.chained
    return stack([ExactCTMLE(m, jnp.asarray(radius(m.models)), chained) for m in case.instances()])


def _alike(cases: list[ExactCase]) -> list[list[ExactCase]]:
    """Group cases by compiled program, largest groups first."""
    groups: dict[object, list[ExactCase]] = {}
    for case in cases:
        groups.setdefault((case.gap, case.looking), []).append(case)
    return sorted(groups.values(), key=lambda group: -sum(case.seeds for case in group))


@lru_cache(maxsize=256)
def _instance(model_class: str, noise: float, gap: float, separation: float) -> FiniteClass:
    return CLASSES[model_class](noise, gap, separation)
