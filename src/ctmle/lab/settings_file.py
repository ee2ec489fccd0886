"""Settings from a file: TOML, JSON, or the config.json of an earlier run."""

import json
import os
import stat
import tomllib
from pathlib import Path
from typing import Any

LARGEST = 1_000_000
"""Bytes. No file of settings is larger."""

NOT_OPTIONS = ("schema", "checksum", "versions", "machine", "system", "parts")
"""Entries of a run's config.json that are no options."""

GROUPS = ("learner", "evaluation")
"""Tables that a file may have: they only group settings for the reader."""


def read_settings(path: str | Path) -> dict[str, Any]:
    """Return the settings in a file by name, its tables merged. Raises ValueError that says what is wrong."""
    return flat({name: value for name, value in read_table(Path(path)).items() if name not in (*NOT_OPTIONS, "out")})


def read_table(path: Path) -> dict[str, Any]:
    """Return the content of a TOML or JSON file by name. Raises ValueError that says what is wrong."""
    if path.suffix not in (".toml", ".json"):
        raise ValueError("settings are read from .toml and .json files")
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # a pipe may have no writer
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise ValueError("is not an ordinary file")
            if found.st_size > LARGEST:
                raise ValueError(f"is larger than {LARGEST} bytes, so it is no file of settings")
            content = file.read()
    except OSError as error:
        raise ValueError(f"cannot be read ({error.strerror})") from error
    try:
        found = tomllib.loads(content.decode()) if path.suffix == ".toml" else json.loads(content)
    except (ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"cannot be parsed ({reason})") from error
    if not isinstance(found, dict):
        raise ValueError("holds no settings by name")
    return found


def flat(content: dict[str, Any]) -> dict[str, Any]:
    """Merge the tables [learner] and [evaluation] into the settings around them. Raises ValueError for duplicates."""
    found: dict[str, Any] = {}
    for name, value in content.items():
        inner = value if isinstance(value, dict) and name in GROUPS else {name: value}
        for key in inner:
            if key in found:
                raise ValueError(f"'{key}' is set twice")
        found |= inner
    return found
