"""The paper's experiments by name."""

from ctmle.lab.paper.agents import ThreeAgents
from ctmle.lab.paper.base import PaperExperiment
from ctmle.lab.paper.convergence import Convergence
from ctmle.lab.paper.gap import Gap
from ctmle.lab.paper.width import Width


def paper_experiment(name: str, optimum: float | None = None) -> PaperExperiment:
    """Return an experiment; `optimum` is the score that errors of `convergence` are measured from."""
    experiments: dict[str, PaperExperiment] = {
        "comparison": ThreeAgents(),
        "gap": Gap(),
        "width": Width(),
        "convergence": Convergence(optimum),
    }
    return experiments[name]
