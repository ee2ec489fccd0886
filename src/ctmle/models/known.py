"""A learner with nothing to learn: the true SDE."""

from dataclasses import dataclass, field

from jaxtyping import PRNGKeyArray

from ctmle.envs.base import Env, Spec
from ctmle.models.learner import Learner
from ctmle.models.model import TrueSDE


@dataclass(frozen=True)
class KnownModel(Learner):
    """Knows the environment's own SDE (in physical coordinates, where it is an SDE)."""

    env: Env = field(hash=False, compare=False)

    def init(self, spec: Spec, key: PRNGKeyArray) -> TrueSDE:
        return TrueSDE(self.env)

    def sde(self, state: TrueSDE) -> TrueSDE:
        return state
