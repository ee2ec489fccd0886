"""How far an interval from few seeds can be trusted: the table in docs/reproduce.md.

    python benchmarks/intervals.py

Scores are drawn from one normal distribution, so that the truth is known: how often does the 95% interval of a mean
miss it, and how often does the interval of a difference between two agents exclude 0 though they are alike?
"""

from collections.abc import Sequence

import numpy as np

from ctmle.lab.report.statistics import bootstrap, interquartile_mean

SEEDS = (3, 5, 10, 20)
TRIALS = 1000
RESAMPLES = 400


def main() -> None:
    print("| seeds of each | interval of a mean misses it | difference claimed where there is none |\n|---|---|---|")
    random = np.random.default_rng(0)
    for seeds in SEEDS:
        missed = claimed = 0
        for _ in range(TRIALS):
            ours, theirs = random.normal(size=(2, seeds))
            mean = bootstrap([ours], lambda groups: float(groups[0].mean()), resamples=RESAMPLES)
            apart = bootstrap([ours, theirs], _difference, resamples=RESAMPLES)
            missed += _excludes(mean.interval, 0.0)
            claimed += _excludes(apart.interval, 0.0)
        print(f"| {seeds} | {missed / TRIALS:.0%} | {claimed / TRIALS:.0%} |", flush=True)


def _difference(groups: Sequence[np.ndarray]) -> float:
    return interquartile_mean(groups[0]) - interquartile_mean(groups[1])


def _excludes(interval: tuple[float, float] | None, truth: float) -> bool:
    return interval is not None and not interval[0] <= truth <= interval[1]


if __name__ == "__main__":
    main()
