"""The paper's experiments: which runs each needs, and what those say of the paper's claims."""

from ctmle.config.reproduce import ReproduceCommand
from ctmle.lab.paper.comparison import Comparison
from ctmle.lab.paper.convergence import Convergence
from ctmle.lab.paper.experiment import Experiment
from ctmle.lab.paper.gap import Gap
from ctmle.lab.paper.width import Width


def experiment(command: ReproduceCommand) -> Experiment:
    """The one that is asked for."""
    experiments: dict[str, Experiment] = {
        "comparison": Comparison(),
        "gap": Gap(),
        "width": Width(),
        "convergence": Convergence(command.optimum),
    }
    return experiments[command.experiment]


__all__ = ["Comparison", "Convergence", "Experiment", "Gap", "Width", "experiment"]
