"""Flat names for all settings of a tree of parts. The command line, files of settings and sweeps use these names."""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from difflib import get_close_matches
from functools import cache, cached_property
from itertools import pairwise
from typing import Any, Literal, get_origin

from ctmle.registry import Registry, import_path
from ctmle.settings import Part, SettingError, alternatives, option_name, problem, spelled, types_of

STRUCTURE = ("state_names", "angles", "control_low", "control_high")
"""Fields of an environment that describe it and are not settings."""


@dataclass(frozen=True)
class Option:
    """One setting of a tree of parts."""

    name: str
    path: tuple[str, ...]
    """Names of the fields that lead to it."""
    hint: Any
    """Its type: Literal of names for a choice between parts, bool for a part that can be left out."""
    value: Any
    help: str


@dataclass(frozen=True)
class _Setting:
    """A field of a part: its name in Python, its name as an option, its type."""

    field: str
    name: str
    hint: Any

    @cached_property
    def part(self) -> type | None:
        """The kind of part that it holds, if it holds one."""
        kinds = [k for k in alternatives(self.hint) if isinstance(k, type) and issubclass(k, Part)]
        return kinds[0] if kinds else None

    @cached_property
    def choices(self) -> Registry | None:
        return getattr(self.part, "choices", None)

    @cached_property
    def optional(self) -> bool:
        return self.part is not None and len(alternatives(self.hint)) > 1


def is_part(value: Any) -> bool:
    """Tell whether a value is a tree of settings: a part, or a module that is built from settings (an environment)."""
    return isinstance(value, Part) or (hasattr(value, "tuned") and is_dataclass(value))


def walk(part: Any, path: tuple[str, ...] = ()) -> Iterator[Option]:
    """List the options of a part and of all parts in it."""
    for setting in _settings(type(part)):
        value, place = getattr(part, setting.field), (*path, setting.field)
        text = docs_of(type(part)).get(setting.field, "")
        if setting.choices is not None:
            chosen = setting.choices.name_of(type(value)) or ""
            yield Option(setting.name, place, Literal[setting.choices.names], chosen, text)
        elif setting.optional:
            yield Option(setting.name, place, bool, value is not None, text)
        elif not is_part(value):
            yield Option(setting.name, place, setting.hint, value, text)
        if is_part(value):
            yield from walk(value, place)


def flat(part: Any) -> dict[str, Any]:
    """Return the value of every option by its name."""
    return {option.name: option.value for option in walk(part)}


def apply(part: Any, changes: dict[str, Any]) -> Any:
    """Return a part with some options changed. Choices come first; then every part is made once with all its changes.

    Raises ValueError, with a near match, for a name that is no option here, and SettingError for a bad value.
    """
    return apply_each((part,), changes)[0]


def apply_each(parts: tuple[Any, ...], changes: dict[str, Any]) -> tuple[Any, ...]:
    """Return several parts with some options changed, each in the one that has it, as `apply` does."""
    used: set[str] = set()
    changed = tuple(_rebuilt(part, changes, used) for part in parts)
    for name in changes:
        if name not in used:
            raise ValueError(no_option(name, changed[0]))
    return changed


def no_option(name: str, part: Any) -> str:
    """Return the sentence about an option that does not exist, or that belongs to a part that is not in use."""
    for chosen, option in _of_variants(part):
        if option.name == name:
            return f"{spelled(name)} belongs to {chosen}: add that, or leave it out"
    near = get_close_matches(name, [option.name for option in walk(part)], n=1)
    return f"there is no setting '{name}'" + (f": did you mean '{near[0]}'?" if near else "")


def variant_options(part: Any) -> dict[str, Option]:
    """Return the options of all parts that could be chosen instead of those in use, and of parts in them."""
    found: dict[str, Option] = {}
    for _, option in _of_variants(part):
        found.setdefault(option.name, option)
    used = flat(part)
    return {name: option for name, option in found.items() if name not in used}


def _of_variants(part: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Option]]:
    """List the options of all parts that could be chosen instead of those in use, each with what chooses the part."""
    for option in walk(part):
        for owner, other in _variants(part, option):
            chosen, variant, place = f"{spelled(option.name)} {owner}".rstrip(), other(), (*path, *option.path)
            yield from ((chosen, each) for each in walk(variant, place))
            yield from ((f"{chosen} {deeper}", each) for deeper, each in _of_variants(variant, place))


def describe(value: Any) -> Any:
    """Return a tree of parts as JSON: each part with its import path and its fields."""
    if is_part(value):
        kind = type(value)
        settings = {setting.field: describe(getattr(value, setting.field)) for setting in _settings(kind)}
        return {"part": f"{kind.__module__}:{kind.__qualname__}", "settings": settings}
    return list(value) if isinstance(value, tuple) else value


def build(described: Any, trusted: Any = lambda path: True) -> Any:
    """Make the tree of parts that `describe` described. Raises ValueError for an import path that is not trusted."""
    if isinstance(described, dict):
        path = described["part"]
        if not trusted(path):
            raise ValueError(f"it names {path}, which is not part of ctmle: pass --trust to import it")
        settings = {name: build(value, trusted) for name, value in described["settings"].items()}
        return import_path(path)(**settings)
    return tuple(described) if isinstance(described, list) else described


@cache
def docs_of(kind: type) -> dict[str, str]:
    """Return the docstring below each field of a class, those of its bases included."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
        except (OSError, TypeError, SyntaxError):
            continue
        body = getattr(tree.body[0], "body", [])
        for statement, following in pairwise(body):
            target = getattr(statement, "target", None)
            text = getattr(getattr(following, "value", None), "value", None)
            if isinstance(target, ast.Name) and isinstance(following, ast.Expr) and isinstance(text, str):
                found[target.id] = " ".join(text.split())
    return found


@cache
def _settings(kind: type) -> tuple[_Setting, ...]:
    """List the settings of a part; those of an environment are its constructor's parameters."""
    hints = types_of(kind)
    if issubclass(kind, Part):
        return tuple(_Setting(f.name, option_name(f), hints[f.name]) for f in fields(kind))  # pyright: ignore[reportArgumentType]
    names = [name for name in inspect.signature(kind).parameters if name not in _structure(kind)]
    return tuple(_Setting(name, name, hints[name]) for name in names if _plain(hints.get(name)))


def _structure(kind: type) -> tuple[str, ...]:
    """Return the fields of a system that are no settings."""
    return getattr(kind, "structure", STRUCTURE)


def _plain(hint: Any) -> bool:
    """Tell whether a value of this type can be typed on a command line."""
    return all(
        kind in (bool, int, float, str, type(None)) or get_origin(kind) in (Literal, tuple) for kind in _kinds(hint)
    )


def _kinds(hint: Any) -> list[Any]:
    """Return the types that a value may have, without their limits."""
    return [kind for outer in alternatives(hint) for kind in alternatives(outer)]


def _rebuilt(part: Any, changes: dict[str, Any], used: set[str]) -> Any:
    arguments, changed = {}, False
    for setting in _settings(type(part)):
        value = before = getattr(part, setting.field)
        if setting.name in changes:
            used.add(setting.name)
            value = _changed(type(part), setting, before, changes[setting.name])
        if is_part(value):
            value = _rebuilt(value, changes, used)
        arguments[setting.field] = value
        changed = changed or value is not before
    if not isinstance(part, Part):
        parameters = inspect.signature(type(part)).parameters
        arguments |= {name: getattr(part, name) for name in getattr(type(part), "structure", ()) if name in parameters}
    return type(part)(**arguments) if changed else part


def _changed(owner: type, setting: _Setting, before: Any, value: Any) -> Any:
    """Return the new value of a setting: another part for a choice, a default part for one that was left out."""
    if setting.choices is not None:
        if not isinstance(value, str):
            wanted = f"one of {', '.join(setting.choices.names)}"
            raise SettingError(owner.__name__, setting.field, setting.name, wanted, value)
        chosen = setting.choices.load(value)
        return before if type(before) is chosen else _like(chosen(), before)
    if setting.optional and setting.part is not None:
        if not isinstance(value, bool):
            raise SettingError(owner.__name__, setting.field, setting.name, "true or false", value)
        return (before or setting.part()) if value else None
    typed = _typed(setting.hint, value)
    wanted = problem(setting.hint, typed)
    if wanted is not None:
        raise SettingError(owner.__name__, setting.field, setting.name, wanted, value)
    return typed


def _like(part: Any, before: Any) -> Any:
    """Return a part with the settings that it shares by name with the one it replaces."""
    known = {setting.name for setting in _settings(type(part)) if setting.part is None}
    shared = {s.name: getattr(before, s.field) for s in _settings(type(before)) if s.part is None and s.name in known}
    return _rebuilt(part, shared, set())


def _typed(hint: Any, value: Any) -> Any:
    """Turn a list into a tuple, and 2 into 2.0 where a float is wanted."""
    kinds = _kinds(hint)
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, int) and not isinstance(value, bool) and float in kinds and int not in kinds:
        return float(value) if abs(value) < 1e300 else value
    return value


def _variants(part: Any, option: Option) -> Iterator[tuple[str, type]]:
    """List the parts that could stand in the place of an option, by name, but for the one that does."""
    owner: Any = part
    for field in option.path[:-1]:
        owner = getattr(owner, field)
    setting = next(s for s in _settings(type(owner)) if s.field == option.path[-1])
    if setting.choices is not None:
        for name in setting.choices.names:
            chosen = setting.choices.load(name)
            if name != option.value and isinstance(chosen, type):
                yield name, chosen
    elif setting.optional and setting.part is not None and option.value is False:
        yield "", setting.part
