"""What scores lack to the optimum, episode by episode."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ctmle.lab.report.statistics import Estimate, bootstrap, log_log_slope


@dataclass(frozen=True)
class Errors:
    """What the scores of every seed lack after each episode, on one system."""

    environment: str
    optimum: float
    episodes: Float[np.ndarray, " episodes"]
    each: Float[np.ndarray, "seeds episodes"]

    @property
    def so_far(self) -> Float[np.ndarray, "seeds episodes"]:
        """The mean over the episodes up to each: the error of a policy drawn from them, which the theory bounds."""
        return np.cumsum(self.each, axis=1) / np.arange(1, self.each.shape[1] + 1)

    def exponent(self, each: Float[np.ndarray, "seeds episodes"]) -> Estimate:
        """Of the power of N that the mean over seeds falls with. Seeds are resampled with their whole curves."""
        return bootstrap([each], lambda groups: log_log_slope(self.episodes, groups[0].mean(axis=0)))
