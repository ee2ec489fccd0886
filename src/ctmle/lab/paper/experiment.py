"""What every experiment can say of itself. All of it is pure: settings to runs, results of runs to what they show."""

from typing import Protocol, runtime_checkable

from matplotlib.figure import Figure

from ctmle.config import TrainConfig
from ctmle.config.reproduce import ReproduceCommand
from ctmle.lab.paper.verdict import Verdict
from ctmle.lab.report.tables import Listing
from ctmle.lab.sweeps import Result


@runtime_checkable
class Experiment(Protocol):
    """One of the paper's experiments. Results are those of finished runs, at least one of them."""

    @property
    def definitions(self) -> str:
        """What the quantities mean, for whoever finds the tables alone."""
        ...

    def runs(self, command: ReproduceCommand) -> list[TrainConfig]: ...
    def measured(self, results: list[Result]) -> Listing: ...
    def verdicts(self, results: list[Result]) -> list[Verdict]: ...
    def figure(self, results: list[Result]) -> Figure: ...
