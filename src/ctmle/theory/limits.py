"""Checks of the calculators' arguments against the limits in `ctmle.settings`."""

from typing import Annotated, Any

from ctmle.settings import Limit

AtLeastOne = Annotated[int, Limit("at least 1", 1)]


def check(kind: Any, **numbers: int | float) -> None:
    """Raise ValueError for the first number outside the limits of a type, such as `Positive` or `OpenShare`."""
    (limit,) = kind.__metadata__
    for name, value in numbers.items():
        if not limit.allows(float(value)):
            raise ValueError(f"{name} must be {limit.wanted}, not {value}")
