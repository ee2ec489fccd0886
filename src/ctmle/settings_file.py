"""Settings from a file: TOML, JSON, or the config.json of an earlier run."""

import json
import tomllib
from collections.abc import Sequence
from dataclasses import fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ctmle.checks import check_field, types_of
from ctmle.config import AGENT_NAMES, ENVIRONMENT_NAMES, PRESET_NAMES, TrainConfig, preset

LARGEST = 1_000_000
"""Bytes. No file of settings is larger."""

NOT_SETTINGS = ("schema", "checksum", "versions", "out", "config")
"""What a run's config.json has beside its settings."""


def read_settings(path: str | Path) -> dict[str, Any]:
    """The settings in a file by name, tables such as [learner] laid flat. Raises ValueError that says what is wrong."""
    found = {name: value for name, value in read_table(Path(path)).items() if name not in NOT_SETTINGS}
    return flat(found)


def read_table(path: Path) -> dict[str, Any]:
    """What a TOML or JSON file holds by name. Raises ValueError that says what is wrong with it."""
    if path.suffix not in (".toml", ".json"):
        raise ValueError("settings are read from .toml and .json files")
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except OSError as error:
        raise ValueError(f"cannot be read ({error.strerror})") from error
    if len(content) > LARGEST:
        raise ValueError(f"is larger than {LARGEST} bytes, so it is no file of settings")
    try:
        text = content.decode()
        found = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"cannot be parsed ({_first_line(error)})") from error
    if not isinstance(found, dict):
        raise ValueError("holds no settings by name")
    return found


def flat(content: dict[str, Any]) -> dict[str, Any]:
    """Settings by name alone, whether or not they were given in a table [learner] or [evaluation]."""
    found: dict[str, Any] = {}
    for name, value in content.items():
        inner = value if isinstance(value, dict) and name in ("learner", "evaluation") else {name: value}
        for key in inner:
            if key in found:
                raise ValueError(f"'{key}' is set twice")
        found |= inner
    return found


def starting_point(settings: dict[str, Any]) -> TrainConfig:
    """The preset that settings start from: environment, preset and agent decide, so they are looked up first."""
    return preset(
        _known("environment", settings.get("environment"), ENVIRONMENT_NAMES),
        _known("preset", settings.get("preset"), PRESET_NAMES),
        _known("agent", settings.get("agent"), AGENT_NAMES),
    )


def apply_settings(start: TrainConfig, settings: dict[str, Any]) -> TrainConfig:
    """`start` with these settings in place of its own. Raises ValueError, with a near match, for one that is none."""
    parts: dict[str, Any] = {"": start, "learner": start.learner, "evaluation": start.evaluation}
    places = {field.name: place for place, part in parts.items() for field in fields(part) if field.name not in parts}
    changes: dict[str, dict[str, Any]] = {place: {} for place in parts}
    for name, value in settings.items():
        if name not in places:
            near = get_close_matches(name, places, n=1)
            hint = f": did you mean '{near[0]}'?" if near else f" of {start.agent}"
            raise ValueError(f"there is no setting '{name}'{hint}")
        part = parts[places[name]]
        changes[places[name]][name] = _typed(part, name, value)
        check_field(type(part), name, changes[places[name]][name])
    return replace(
        start,
        **changes[""],
        learner=replace(start.learner, **changes["learner"]),
        evaluation=replace(start.evaluation, **changes["evaluation"]),
    )


def no_such(what: str, name: Any, names: Sequence[str]) -> str:
    """The sentence about a name that is none, with a near match."""
    near = get_close_matches(str(name), names, n=1)
    hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(names)}"
    return f"no {what} is called '{name}': {hint}"


def _known(what: str, name: Any, names: Sequence[str]) -> str:
    """`name`, or the first of `names` if none is given. Raises ValueError for any other."""
    if name is None:
        return names[0]
    if name not in names:
        raise ValueError(no_such(what, name, names))
    return name


def _typed(part: Any, name: str, value: Any) -> Any:
    """Lists are tuples here, and 2 is as good as 2.0; all else is for the checks at the door."""
    hint = types_of(type(part))[name]
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, int) and not isinstance(value, bool) and hint in (float, float | None):
        return float(value) if abs(value) < 1e300 else value
    return value


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
