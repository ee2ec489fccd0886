"""The policy to measure regret against: the same improver, in the true SDE."""

from collections.abc import Iterator
from typing import Any

from ctmle.agents.ct_mle import CTMLE
from ctmle.config import TrainConfig
from ctmle.lab.run import Run
from ctmle.planning.rollout import TrueWorld


def improve_on_truth(config: TrainConfig) -> Iterator[dict[str, Any]]:
    """Records of a run in which the belief is the truth (in physical coordinates, where the truth is an SDE)."""
    run = Run(config)
    run.agent = CTMLE(config.learner, known_world=TrueWorld(run.env))
    for _, record in run.episodes(run.init()):
        yield record
