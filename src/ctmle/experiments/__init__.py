"""What is asked: runs and their evaluation."""

from ctmle.experiments.evaluate import Score, evaluate, imagined_score
from ctmle.experiments.run import Run, build_env

__all__ = ["Run", "Score", "build_env", "evaluate", "imagined_score"]
