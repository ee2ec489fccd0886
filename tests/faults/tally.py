"""What an attack class tried and what failed: every module here has `attack(...) -> Tally`."""

from dataclasses import dataclass, field


@dataclass
class Tally:
    """Attacks of one class: how many were tried, and a line for each that was not survived."""

    tried: int = 0
    failures: list[str] = field(default_factory=list)
    note: str = ""
    """Figures that are worth a look."""

    def add(self, survived: bool, name: str) -> None:
        self.tried += 1
        if not survived:
            self.failures.append(name)
