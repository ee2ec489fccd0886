"""All cases of `ctmle exact`, as many at a time as there are cores."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event, Lock

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from ctmle.config.exact import ExactConfig
from ctmle.theory.exact.cases import Case, agents_of, beta_of, cases_of
from ctmle.theory.exact.play import play, stack

CHUNK = 50
"""Seeds per compiled call: one shape serves both studies, and progress is seen."""


@dataclass(frozen=True)
class Outcome:
    """What was seen of a case: one row per separation, one column per seed."""

    case: Case
    beta: float
    regret: Float[np.ndarray, "separations seeds episodes"]
    """Cumulative."""
    variance: Float[np.ndarray, "separations seeds episodes"]
    """Cumulative sum of Var^{u_n}."""
    grid_covers: Bool[np.ndarray, "separations seeds episodes"]
    extra_covers: Bool[np.ndarray, "separations seeds episodes"]
    grid_size: Int[np.ndarray, "separations seeds episodes"]
    both_size: Int[np.ndarray, "separations seeds episodes"]
    empty: Float[np.ndarray, "separations seeds"]
    """Share of episodes in which the sets had no model in common."""


def sweep(config: ExactConfig, report: Callable[[int, int, Case], None]) -> list[Outcome]:
    """Play every case. `report(done, total, case)` is called after each.

    Threads, not processes: compiled programs run without the interpreter's lock, and each keeps to about one core.
    Cases that share a compiled program share a thread, so that nothing is compiled twice.
    """
    cases = cases_of(config)
    outcomes: dict[Case, Outcome] = {}
    lock, stop = Lock(), Event()

    def play_in_turn(alike: list[Case]) -> None:
        for case in alike:
            if stop.is_set():
                return
            outcome = outcome_of(case, config)
            with lock:
                outcomes[case] = outcome
                report(len(outcomes), len(cases), case)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            for job in [pool.submit(play_in_turn, alike) for alike in _alike(cases)]:
                job.result()
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    return [outcomes[case] for case in cases]


def _alike(cases: list[Case]) -> list[list[Case]]:
    """Cases by compiled program, the most work first."""
    groups: dict[object, list[Case]] = {}
    for case in cases:
        groups.setdefault((case.gap, case.looking), []).append(case)
    return sorted(groups.values(), key=lambda group: -sum(case.seeds for case in group))


def outcome_of(case: Case, config: ExactConfig) -> Outcome:
    """Every case has the same keys, so that ways of looking are compared on the same randomness where they can be."""
    agents, key = agents_of(case, config), jax.random.key(config.seed)
    stacked, schedule = stack(agents), case.looking.schedule(case.gap)
    keys = jax.random.split(key, -(-case.seeds // CHUNK) * CHUNK)
    chunks = [keys[i : i + CHUNK] for i in range(0, case.seeds, CHUNK)]
    plays = [jax.tree.map(np.asarray, play(stacked, schedule, config.episodes, chunk)) for chunk in chunks]
    whole = jax.tree.map(lambda *parts: np.concatenate(parts, axis=1)[:, : case.seeds], *plays)
    return Outcome(
        case=case,
        beta=beta_of(config, agents[0].models.models),
        regret=np.cumsum(whole.regret, axis=-1),
        variance=np.cumsum(whole.variance, axis=-1),
        grid_covers=np.logical_and.accumulate(whole.grid_covers, axis=-1),
        extra_covers=np.logical_and.accumulate(whole.extra_covers, axis=-1),
        grid_size=whole.grid_size,
        both_size=whole.both_size,
        empty=whole.empty.mean(axis=-1),
    )
