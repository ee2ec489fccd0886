"""What an improver of policies is."""

from abc import abstractmethod
from typing import Any

from ctmle.models.world import Values
from ctmle.planning.policy import Feedback
from ctmle.training.updates import Trainer


class Improver(Trainer):
    """Improves a policy in the current world."""

    @abstractmethod
    def feedback(self, state: Any) -> Feedback:
        """Return the current policy's feedback."""

    @abstractmethod
    def values(self, state: Any) -> Values:
        """Return the critic and what it is discounted by."""
