"""Settings are checked at the door: one sentence that names the setting, what is wrong and what would do."""

import math
from dataclasses import fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from ctmle.config import CTMLEConfig, EvaluationConfig, TrainConfig

POSITIVE_NUMBERS = {
    "unit", "horizon", "step", "gap", "trajectory_seconds", "diffusion_floor", "dynamics_rate", "diffusion_rate",
    "longest_step", "eta_base", "optimism_ratio", "policy_horizon", "policy_step", "discount_time", "policy_rate",
    "critic_rate", "gradient_clip", "test_gap",
}  # fmt: skip
NUMBERS_FROM_ZERO = {"sigma", "weight_decay", "warm_up"}
SHARES = {"dynamics_final_rate", "policy_final_rate", "reset_starts", "box_starts"}
COUNTS_FROM_ZERO = {"seed", "projections"}
"""Whole numbers that may be 0; all others are at least 1."""


def check_config(config: TrainConfig) -> None:
    """Raises ValueError for the first setting, or combination of settings, that cannot work."""
    for part in (config, config.learner, config.evaluation):
        _check_fields(part)
    _check_combinations(config)


def option(name: str) -> str:
    """How a setting is spelled on the command line."""
    return "--" + name.replace("_", "-")


def _check_fields(part: TrainConfig | CTMLEConfig | EvaluationConfig) -> None:
    hints = get_type_hints(type(part))
    for field in fields(part):
        name, value = field.name, getattr(part, field.name)
        choices = get_args(hints[name]) if get_origin(hints[name]) is Literal else ()
        if choices and value not in choices:
            raise ValueError(f"{option(name)} must be one of {', '.join(choices)}, not {value!r}")
        if value is None:
            continue
        if name in POSITIVE_NUMBERS:
            _require(_is_number(value) and 0 < value < math.inf, name, "a positive number", value)
        elif name in NUMBERS_FROM_ZERO:
            _require(_is_number(value) and 0 <= value < math.inf, name, "a number of at least 0", value)
        elif name in SHARES:
            _require(_is_number(value) and 0 <= value <= 1, name, "between 0 and 1", value)
        elif hints[name] is int:
            least = 0 if name in COUNTS_FROM_ZERO else 1
            _require(_is_whole(value) and value >= least, name, f"a whole number of at least {least}", value)
        elif hints[name] is bool:
            _require(isinstance(value, bool), name, "true or false", value)
        elif hints[name] is float:
            _require(_is_number(value) and math.isfinite(value), name, "a finite number", value)
        elif hints[name] == tuple[int, ...]:
            fine = isinstance(value, tuple) and value and all(_is_whole(width) and width >= 1 for width in value)
            _require(bool(fine), name, "one or more positive widths", value)


def _check_combinations(config: TrainConfig) -> None:
    learner, evaluation = config.learner, config.evaluation
    seconds = learner.trajectory_seconds or config.horizon
    if config.gap > seconds:
        raise ValueError(f"--gap {config.gap:g} is longer than a trajectory of {seconds:g} s: choose a shorter gap")
    gaps = math.ceil(seconds / config.gap - 1e-9)
    if gaps < learner.dynamics_length:
        raise ValueError(
            f"--gap {config.gap:g} leaves {gaps} gaps in a trajectory, fewer than --dynamics-length"
            f" {learner.dynamics_length}: choose a shorter gap or shorter subsequences"
        )
    if evaluation.warm_up >= config.horizon:
        raise ValueError(
            f"--warm-up {evaluation.warm_up:g} leaves nothing of the horizon {config.horizon:g} s to score"
        )
    if evaluation.test_gap > config.horizon - evaluation.warm_up:
        raise ValueError(f"--test-gap {evaluation.test_gap:g} is longer than the time that is scored")
    if learner.policy_step > learner.policy_horizon:
        raise ValueError(
            f"--policy-step {learner.policy_step:g} is longer than --policy-horizon {learner.policy_horizon:g}"
        )
    if learner.reset_starts + learner.box_starts > 1:
        raise ValueError("--reset-starts and --box-starts are shares of one whole: together at most 1")
    if learner.particles < learner.ensemble:
        raise ValueError(
            f"--particles {learner.particles} is fewer than one for each of the {learner.ensemble} ensemble members"
        )


def _require(fine: bool, name: str, wanted: str, value: Any) -> None:
    if not fine:
        raise ValueError(f"{option(name)} must be {wanted}, not {value!r}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
