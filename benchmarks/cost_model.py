"""Floating-point operations of the matrix products in an update of CT-MLE, by formula from its options."""

import itertools
from collections.abc import Sequence
from typing import Any

from ctmle.envs.base import Spec
from ctmle.models.laws import steps_for

Options = dict[str, Any]
"""Every option of an experiment, by its name."""

EVALUATIONS: dict[str, int] = {"rk3": 3, "rk4": 4, "dopri5": 6, "adaptive": 7}
"""Of the drift in one step. The adaptive solver takes six and one to start with; that one step is enough is assumed."""


def network(sizes: Sequence[int]) -> int:
    """One evaluation at one point: a product and a sum for each weight."""
    return sum(2 * a * b for a, b in itertools.pairwise(sizes))


def samples_of(options: Options) -> int:
    """Pairs of looks in a dynamics update."""
    return options["dynamics_batch"] * options["dynamics_length"] * (2 if options["random_looks"] else 1)


def dynamics_update(options: Options, spec: Spec) -> int:
    """Count the operations of all gaps, under the recorded policy unless control is held.

    Each gap has the drift along its path; the drift at a point of each step with gradients by weights and by inputs,
    at the price of one more evaluation each; slopes, with gradients if there are several segments. With the law
    `euler`, gradients go along the path.
    """
    observed, features = spec.observation.size, spec.observation.feature_size
    drift = network((features + spec.control_size, *options["dynamics_hidden"], observed))
    closed = options["control"] == "closed-loop"
    policy = network((features, *options["policy_hidden"], spec.control_size)) if closed else 0
    segments, steps_each = steps_for(options["gap"], options["longest_step"])
    steps = segments * (1 if options["solver"] == "adaptive" else steps_each)
    if options["law"] == "euler":
        each = steps * EVALUATIONS[options["solver"]] * (3 * drift + 2 * policy)
    else:
        path = steps * EVALUATIONS[options["solver"]] * (drift + policy)
        slope = (1 if segments == 1 else 3) * drift + policy
        each = path + steps * (3 * drift + policy) + segments * 2 * observed * slope
    return options["ensemble"] * samples_of(options) * each


def policy_update(options: Options, spec: Spec) -> int:
    """Count two drifts per imagined step, differentiated by inputs only; the policy at all points; critic steps."""
    features = spec.observation.feature_size
    drift = network((features + spec.control_size, *options["dynamics_hidden"], spec.observation.size))
    policy = network((features, *options["policy_hidden"], spec.control_size))
    critic = network((features, *options["policy_hidden"], 1))
    steps = round(options["policy_horizon"] / options["policy_step"])
    imagined = options["particles"] * (2 * steps * (2 * drift + 3 * policy) + (steps + 1) * 3 * policy)
    return imagined + options["critic_steps"] * options["critic_batch"] * 3 * critic
