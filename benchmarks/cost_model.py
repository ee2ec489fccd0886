"""Floating-point operations of an update of CT-MLE, by formula of its settings: those of matrix products alone."""

import itertools
from collections.abc import Sequence

from ctmle.config import CTMLEConfig, TrainConfig
from ctmle.config.ct_mle import LONGEST_SEGMENT
from ctmle.dynamics.transition import segments_of
from ctmle.envs.base import Spec

EVALUATIONS: dict[str, int] = {"rk3": 3, "rk4": 4, "dopri5": 6, "adaptive": 7}
"""Of the drift in one step. The adaptive solver takes six and one to start with; that one step is enough is assumed."""


def network(sizes: Sequence[int]) -> int:
    """One evaluation at one point: a product and a sum for each weight."""
    return sum(2 * a * b for a, b in itertools.pairwise(sizes))


def dynamics_update(config: TrainConfig, learner: CTMLEConfig, spec: Spec) -> int:
    """Of each gap: the drift along its path, and with gradients by weights and by inputs, at the price of one more
    evaluation each, at a point of each step; slopes, with gradients if there are several segments. With the covariance
    of `euler`, gradients go along the path.

    All under the recorded policy, unless control is held.
    """
    observed, features = spec.observation.size, spec.observation.feature_size
    drift = network((features + spec.control_size, *learner.dynamics_hidden, observed))
    policy = network((features, *learner.policy_hidden, spec.control_size)) if learner.control == "closed-loop" else 0
    samples = learner.dynamics_batch * learner.dynamics_length * (2 if config.random_looks else 1)
    segments = segments_of(config.gap, LONGEST_SEGMENT)
    steps = segments * (1 if learner.solver == "adaptive" else segments_of(config.gap / segments, learner.longest_step))
    if learner.covariance == "euler":
        each = steps * EVALUATIONS[learner.solver] * (3 * drift + 2 * policy)
    else:
        path = steps * EVALUATIONS[learner.solver] * (drift + policy)
        slope = (1 if segments == 1 else 3) * drift + policy
        each = path + steps * (3 * drift + policy) + segments * 2 * observed * slope
    return learner.ensemble * samples * each


def policy_update(learner: CTMLEConfig, spec: Spec) -> int:
    """Two drifts per imagined step, differentiated by inputs only; the policy at all points; the critic's steps."""
    features = spec.observation.feature_size
    drift = network((features + spec.control_size, *learner.dynamics_hidden, spec.observation.size))
    policy = network((features, *learner.policy_hidden, spec.control_size))
    critic = network((features, *learner.policy_hidden, 1))
    steps = round(learner.policy_horizon / learner.policy_step)
    imagined = learner.particles * (2 * steps * (2 * drift + 3 * policy) + (steps + 1) * 3 * policy)
    return imagined + learner.critic_steps * learner.critic_batch * 3 * critic
