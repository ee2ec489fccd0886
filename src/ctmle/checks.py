"""Settings are checked at the door: one sentence that names the setting, what is wrong and what would do."""

import math
from dataclasses import fields
from functools import cache
from types import NoneType
from typing import Any, Literal, TypeGuard, get_args, get_origin, get_type_hints

from ctmle.config import LEARNERS, ENODEConfig, ModelBasedConfig, SacTacosConfig, TrainConfig

POSITIVE_NUMBERS = {
    "unit", "horizon", "step", "gap", "trajectory_seconds", "diffusion_floor", "dynamics_rate", "diffusion_rate",
    "longest_step", "eta_base", "optimism_ratio", "policy_horizon", "policy_step", "discount_time", "policy_rate",
    "critic_rate", "gradient_clip", "test_gap", "tick", "updates_per_decision", "actor_rate", "temperature_rate",
    "initial_temperature", "reward_scale", "matching_rate", "noise_level", "noise_floor", "noise_rate", "test_seconds",
}  # fmt: skip
NUMBERS_FROM_ZERO = {"sigma", "weight_decay", "warm_up", "switch_cost"}
SHARES = {"dynamics_final_rate", "policy_final_rate", "reset_starts", "box_starts", "target_rate", "pessimism",
          "exploring_strength"}  # fmt: skip
BETWEEN_ZERO_AND_ONE = {"gamma"}
COUNTS_FROM_ZERO = {"seed", "projections", "exploring_trajectories", "matching_updates", "retries"}
"""Whole numbers that may be 0; all others are at least 1."""

SYSTEMS_OF = {"uniform_start": "pendulum", "bang_bang": "cartpole", "underactuated": "acrobot"}
"""The one environment that each of these is a setting of."""

LARGEST_COUNT = 2**32 - 1
MOST_STEPS = 10_000_000
"""More steps than this in one trajectory is a slip of the keyboard."""


def check_config(config: TrainConfig) -> None:
    """Raises ValueError for the first setting, or combination of settings, that cannot work."""
    check_fields(config)
    if not isinstance(config.learner, LEARNERS[config.agent]):
        raise ValueError(f"--agent {config.agent} cannot learn with settings of {type(config.learner).__name__}")
    for part in (config.learner, config.evaluation):
        check_fields(part)
    for name, environment in SYSTEMS_OF.items():
        if getattr(config, name) and config.environment != environment:
            raise ValueError(
                f"environment '{config.environment}' has no setting '{name}': leave out {option(name)}, which is for"
                f" {environment}"
            )
    _check_times(config)
    if isinstance(config.learner, ModelBasedConfig):
        _check_model_based(config, config.learner)
    if isinstance(config.learner, ENODEConfig):
        _check_enode(config.learner)
    if isinstance(config.learner, SacTacosConfig):
        _check_sac_tacos(config, config.learner)


def check_fields(part: Any) -> None:
    """Raises ValueError for the first field of a dataclass of settings that is of no use by itself."""
    for field in fields(part):
        check_field(type(part), field.name, getattr(part, field.name))


@cache
def types_of(kind: type) -> dict[str, Any]:
    """The type of each field of a dataclass of settings. Asked for once per field of every run of a sweep."""
    return get_type_hints(kind)


def option(name: str) -> str:
    """How a setting is spelled on the command line."""
    return "--" + name.replace("_", "-")


def check_field(kind: type, name: str, value: Any) -> None:
    """Raises ValueError for a value that this field of a dataclass of settings cannot have, whatever the others."""
    hint = types_of(kind)[name]
    kinds = _kinds(hint)
    if value is None and NoneType in kinds:
        return
    if get_origin(hint) is Literal:
        choices = get_args(hint)
        _require(isinstance(value, str) and value in choices, name, f"one of {', '.join(choices)}", value)
    elif name in POSITIVE_NUMBERS:
        _require(_is_number(value) and 0 < value < math.inf, name, "a positive number", value)
    elif name in NUMBERS_FROM_ZERO:
        _require(_is_number(value) and 0 <= value < math.inf, name, "a number of at least 0", value)
    elif name in SHARES:
        _require(_is_number(value) and 0 <= value <= 1, name, "between 0 and 1", value)
    elif name in BETWEEN_ZERO_AND_ONE:
        _require(_is_number(value) and 0 < value < 1, name, "between 0 and 1, and neither", value)
    elif int in kinds:
        least = 0 if name in COUNTS_FROM_ZERO else 1
        wanted = f"a whole number of at least {least}"
        _require(_is_whole(value) and least <= value <= LARGEST_COUNT, name, wanted, value)
    elif bool in kinds:
        _require(isinstance(value, bool), name, "true or false", value)
    elif float in kinds:
        _require(_is_number(value) and math.isfinite(value), name, "a finite number", value)
    elif str in kinds:
        _require(isinstance(value, str) and value != "" and "\0" not in value, name, "a text", value)
    elif hint == tuple[int, ...]:
        fine = isinstance(value, tuple) and value and all(_is_whole(width) and 1 <= width <= 65536 for width in value)
        _require(bool(fine), name, "one or more positive widths", value)


def _check_times(config: TrainConfig) -> None:
    evaluation = config.evaluation
    tested = evaluation.test_seconds or config.horizon
    if config.gap > config.horizon:
        raise ValueError(f"--gap {config.gap:g} is longer than the horizon {config.horizon:g} s: choose a shorter gap")
    if evaluation.warm_up >= min(tested, config.horizon):
        raise ValueError(
            f"--warm-up {evaluation.warm_up:g} leaves nothing of the {min(tested, config.horizon):g} s of a trajectory"
            " to score"
        )
    if evaluation.test_gap > tested - evaluation.warm_up:
        raise ValueError(f"--test-gap {evaluation.test_gap:g} is longer than the time that is scored")
    for name, step, seconds in (
        ("step", config.step, max(tested, config.horizon)),
        ("gap", config.gap, config.horizon),
        ("test_gap", evaluation.test_gap, tested),
    ):
        _check_steps(name, step, seconds)
    if config.test_every > config.episodes:
        raise ValueError(
            f"--test-every {config.test_every} leaves no test in {config.episodes} episodes: choose a smaller one"
        )


def _check_model_based(config: TrainConfig, learner: ModelBasedConfig) -> None:
    if config.preset == "convergence":
        raise ValueError("--preset convergence is for --agent sac-tacos: choose default, paper or quick")
    seconds = learner.trajectory_seconds or config.horizon
    _check_steps("gap", config.gap, seconds)
    _check_steps("longest_step", learner.longest_step, config.gap)
    _check_steps("policy_step", learner.policy_step, learner.policy_horizon)
    if config.gap > seconds:
        raise ValueError(f"--gap {config.gap:g} is longer than a trajectory of {seconds:g} s: choose a shorter gap")
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


def _check_enode(learner: ENODEConfig) -> None:
    if learner.dynamics_length < 2:
        raise ValueError(
            f"--dynamics-length {learner.dynamics_length} leaves no look to predict: choose at least 2 looks"
        )
    if learner.noise_floor >= learner.noise_level:
        raise ValueError(f"--noise-floor {learner.noise_floor:g} must be below --noise-level {learner.noise_level:g}")


def _check_sac_tacos(config: TrainConfig, learner: SacTacosConfig) -> None:
    if config.evaluation.test_seconds not in (None, config.horizon):
        raise ValueError(
            f"--test-seconds must be the horizon {config.horizon:g} s for sac-tacos, whose policy sees the time to go"
        )
    _check_steps("tick", learner.tick, config.horizon)
    if learner.tick > config.horizon - config.evaluation.warm_up:
        raise ValueError(f"--tick {learner.tick:g} is longer than the time that is scored: choose a shorter tick")
    if learner.min_hold > learner.max_hold:
        raise ValueError(f"--min-hold {learner.min_hold} is longer than --max-hold {learner.max_hold}")
    if learner.min_hold * learner.tick > config.horizon:
        raise ValueError(
            f"--min-hold {learner.min_hold} ticks of {learner.tick:g} s are longer than the horizon"
            f" {config.horizon:g} s: choose shorter holds"
        )
    least = learner.trajectories_per_episode
    if learner.policies_kept < least:
        raise ValueError(f"--policies-kept {learner.policies_kept} must hold at least the {least} of an episode")


def _check_steps(name: str, step: float, seconds: float) -> None:
    if seconds / step > MOST_STEPS:
        raise ValueError(
            f"{option(name)} {step:g} makes more than {MOST_STEPS} steps of {seconds:g} s: choose a longer one"
        )


def _require(fine: bool, name: str, wanted: str, value: Any) -> None:
    if not fine:
        shown = repr(value)
        raise ValueError(f"{option(name)} must be {wanted}, not {shown if len(shown) < 80 else shown[:77] + '...'}")


def _kinds(hint: Any) -> tuple[Any, ...]:
    """The types that a field may have."""
    return get_args(hint) if get_origin(hint) is not tuple and get_args(hint) else (hint,)


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
