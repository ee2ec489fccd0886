"""Numbers that are not numbers: the error that names where one arose."""

from collections.abc import Iterable


class NotFinite(ValueError):  # noqa: N818 - it names what was found
    """A quantity became infinite or not a number. Says which, where, at which state, and what may help."""

    def __init__(self, quantity: str, where: str, hint: str, state: Iterable[float] | None = None):
        at = "" if state is None else f", at state ({', '.join(f'{value:.4g}' for value in state)})"
        super().__init__(f"{quantity} is not a finite number {where}{at}: {hint}")
