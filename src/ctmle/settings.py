"""Settings of parts: their limits are in their types, and one function checks them all. No JAX in here."""

import math
import shlex
from dataclasses import Field, dataclass, field, fields
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

LARGEST_COUNT = 2**32 - 1
LARGEST_WIDTH = 65_536


@dataclass(frozen=True)
class Limit:
    """The interval that a number (or every number of a tuple) must lie in, and its description in an error message."""

    wanted: str
    low: int | float = -math.inf
    high: int | float = math.inf
    open_low: bool = False
    open_high: bool = False

    def allows(self, value: int | float) -> bool:
        above = value > self.low if self.open_low else value >= self.low
        return above and (value < self.high if self.open_high else value <= self.high)


Finite = Annotated[float, Limit("a finite number", open_low=True, open_high=True)]
Positive = Annotated[float, Limit("a positive number", 0.0, open_low=True, open_high=True)]
NonNegative = Annotated[float, Limit("a number of at least 0", 0.0, open_high=True)]
AtLeastOne = Annotated[float, Limit("a number of at least 1", 1.0, open_high=True)]
Share = Annotated[float, Limit("between 0 and 1", 0.0, 1.0)]
OpenShare = Annotated[float, Limit("strictly between 0 and 1", 0.0, 1.0, open_low=True, open_high=True)]
Count = Annotated[int, Limit("a whole number of at least 1", 1, LARGEST_COUNT)]
CountFromZero = Annotated[int, Limit("a whole number of at least 0", 0, LARGEST_COUNT)]
Widths = Annotated[tuple[int, ...], Limit("one or more positive widths", 1, LARGEST_WIDTH)]
Times = Annotated[tuple[float, ...], Limit("one or more finite times", open_low=True, open_high=True)]


class SettingError(ValueError):
    """A value that a setting cannot have. Python names the class and the field, the command line the option."""

    def __init__(self, owner: str, name: str, option: str, wanted: str, value: Any):
        shown = repr(value)
        self.option = option
        self.problem = f"must be {wanted}, not {shown if len(shown) < 80 else shown[:77] + '...'}"
        super().__init__(f"{owner}.{name} {self.problem}")

    @property
    def on_command_line(self) -> str:
        return f"{spelled(self.option)} {self.problem}"


def spelled(option: str) -> str:
    """Spell a setting as a command-line option: `policy_rate` becomes `--policy-rate`."""
    return "--" + option.replace("_", "-")


def typed(*words: object) -> str:
    """Spell a command so that it can be pasted into a shell."""
    return shlex.join(["ctmle", *map(str, words)])


def plain(text: str) -> str:
    """Make control characters visible: text from files and command lines must not steer a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def option(default: Any, name: str) -> Any:
    """Declare a field with another name on the command line and in files."""
    return field(default=default, metadata={"option": name})


def option_name(setting: "Field[Any]") -> str:
    """Return the name of a field on the command line and in files."""
    return setting.metadata.get("option", setting.name)


class Part:
    """A frozen dataclass of settings, without arrays, checked when it is made.

    Under jit a part is one static leaf, compared by value: equal parts share their compiled programs.
    """

    def __post_init__(self) -> None:
        check_fields(self)
        self.check()

    def check(self) -> None:
        """Raise ValueError for settings that do not fit together."""


def check_fields(part: Any) -> None:
    """Raise SettingError for the first field of a dataclass whose value its type does not allow."""
    hints = types_of(type(part))
    for setting in fields(part):
        value = getattr(part, setting.name)
        wanted = problem(hints[setting.name], value)
        if wanted is not None:
            raise SettingError(type(part).__name__, setting.name, option_name(setting), wanted, value)


def check_limits(module: Any) -> None:
    """Raise SettingError for the first field with a limit, or a choice, in its type whose value is not allowed."""
    for name, hint in types_of(type(module)).items():
        limited = any(get_origin(kind) in (Annotated, Literal) for kind in (hint, *alternatives(hint)))
        wanted = problem(hint, getattr(module, name)) if limited else None
        if wanted is not None:
            raise SettingError(type(module).__name__, name, name, wanted, getattr(module, name))


@cache
def types_of(kind: type) -> dict[str, Any]:
    """Return the type of each field of a dataclass, with its limits."""
    return get_type_hints(kind, include_extras=True)


def problem(hint: Any, value: Any) -> str | None:
    """Describe the values that a type allows if `value` is not one of them."""
    limit = next((extra for extra in getattr(hint, "__metadata__", ()) if isinstance(extra, Limit)), None)
    kinds = alternatives(hint)
    if len(kinds) > 1:
        problems = [problem(kind, value) for kind in kinds]
        return None if None in problems else problems[0]
    kind = next(iter(kinds))
    if kind is NoneType:
        return None if value is None else "none"
    if get_origin(kind) is Literal:
        choices = get_args(kind)
        return None if isinstance(value, str) and value in choices else f"one of {', '.join(choices)}"
    if kind is bool:
        return None if isinstance(value, bool) else "true or false"
    if kind is str:
        return None if isinstance(value, str) and value != "" and "\0" not in value else "a text"
    if kind is int:
        limit = limit or Limit("a whole number")
        return None if _is_whole(value) and limit.allows(value) else limit.wanted
    if kind is float:
        limit = limit or Limit("a finite number", open_low=True, open_high=True)
        return None if _is_number(value) and limit.allows(value) else limit.wanted
    if get_origin(kind) is tuple:
        return _problem_of_tuple(get_args(kind)[0], limit, value)
    if isinstance(kind, type) and not isinstance(value, kind):
        return f"a {kind.__name__}"
    return None


def alternatives(hint: Any) -> tuple[Any, ...]:
    """Return the members of a union, or the type itself, without the limits of a single type."""
    if get_origin(hint) in (Union, UnionType):
        return get_args(hint)
    return tuple(get_args(hint)[:1]) if get_origin(hint) is Annotated else (hint,)


def _problem_of_tuple(kind: Any, limit: Limit | None, value: Any) -> str | None:
    wanted = limit.wanted if limit else "one or more values"
    if not isinstance(value, tuple) or (limit is not None and not value):
        return wanted
    is_fine = {int: _is_whole, float: _is_number}.get(kind, lambda item: problem(kind, item) is None)
    fine = all(is_fine(item) and (limit is None or limit.allows(item)) for item in value)
    return None if fine else wanted


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
