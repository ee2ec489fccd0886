"""`ctmle exact`: settings, checks, the run folder and the tables on the terminal. JAX is loaded only to play."""

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from ctmle.lab.cli.parse import parse
from ctmle.settings import LARGEST_COUNT, CountFromZero, Limit, OpenShare, Part, Positive

if TYPE_CHECKING:
    from ctmle.theory.exact.study import CaseResult, ExactCase, Report

ClassName = Literal["hidden-arm", "speed", "rotation", "volatility", "feedback", "saturated"]
Positives = Annotated[tuple[float, ...], Limit("positive numbers, at least one", 0.0, open_low=True, open_high=True)]
Radius = Annotated[float, Limit("theory, ville or a number of at least 0", 0.0, open_high=True)]
Seeds = Annotated[int, Limit("a whole number of at least 2", 2, LARGEST_COUNT)]

NOISES: dict[str, tuple[float, ...]] = {
    "hidden-arm": (0.002, 0.02, 0.05, 0.15, 0.4),
    "speed": (0.003, 0.03, 0.1, 0.3),
    "rotation": (0.01, 0.1, 0.3),
    "volatility": (0.05, 0.1, 0.2, 0.4),
    "feedback": (0.05, 0.2, 0.5),
    "saturated": (0.2, 0.4, 0.8),
}
SEPARATIONS = (0.006, 0.01, 0.016, 0.025, 0.04, 0.06, 0.1, 0.15, 0.25, 0.4)


@dataclass(frozen=True)
class ExactCommand(Part):
    """Play exact CT-MLE (Algorithms 1 and 2 of the paper) on a finite class of SDEs and tabulate its regret.

    Writes a folder with settings, tables and plots: regret against N for every noise level, coverage and size of the
    confidence sets, and regret against the gap with and without random looks at equal numbers of looks.
    """

    model_class: tyro.conf.Positional[ClassName] = "hidden-arm"
    """Class of models and policies (described in docs/exact.md)."""
    noises: tuple[float, ...] = ()
    """Noise levels; none: the class's own, from almost nothing to large."""
    separations: tuple[float, ...] = ()
    """Hidden arm only: distances e between models, of which the worst counts; none: ten from 0.006 to 0.4."""
    gap: Positive = 1.0
    """[Delta] Seconds between two grid looks in the study of regret against N (the horizon is 4 s)."""
    gaps: Positives = (0.5, 1.0, 2.0)
    """Gaps in the study of regret against the gap."""
    episodes: Annotated[int, Limit("a whole number of at least 10", 10, LARGEST_COUNT)] = 1000
    """[N] Episodes of every run."""
    seeds: Seeds = 200
    """Independent runs of every instance in the study of regret against N."""
    gap_seeds: Seeds = 50
    """Independent runs of every instance in the study of regret against the gap."""
    random_looks: bool = True
    """Take one more look per gap at a uniformly random time (Algorithm 2)."""
    chained: bool = False
    """Score grid look to random look to grid look in one likelihood instead of the paper's two."""
    beta: Radius | Literal["theory", "ville"] = "theory"
    """[beta] Radius of the sets: 5 log(N |F||G| / delta), log(2 |F||G| / delta), or a given number."""
    delta: OpenShare = 0.1
    """[delta] Largest probability with which the sets may miss the truth."""
    seed: CountFromZero = 0
    """Seed of all random numbers."""
    out: str | None = None
    """Folder for the results; none: runs/exact-CLASS-seedSEED, with a number if that exists."""


def checked(command: ExactCommand) -> ExactCommand:
    """Raise ValueError for settings that do not fit together; fill in the class's own noises and separations."""
    hidden_arm = command.model_class == "hidden-arm"
    if command.separations and not hidden_arm:
        raise ValueError(f"--separations belong to the hidden arm: leave them out for {command.model_class}")
    for name in ("noises", "separations", "gaps"):
        values = getattr(command, name)
        if not all(0 < value < math.inf for value in values):
            raise ValueError(f"--{name} must be positive numbers, not {' '.join(map(str, values))}")
        if len(set(values)) < len(values):
            raise ValueError(f"--{name} has the same number twice: give each once")
    if command.chained and not command.random_looks:
        raise ValueError("--chained is about random looks: leave out --no-random-looks, or --chained")
    return replace(
        command,
        noises=command.noises or NOISES[command.model_class],
        separations=command.separations or (SEPARATIONS if hidden_arm else ()),
    )


def cases_of(command: ExactCommand) -> "list[ExactCase]":
    """Regret against N at every noise level, and regret against the gap at the lowest and the highest one."""
    from ctmle.theory.exact.study import CHAINED, EQUAL_LOOKS, GRID, PAPER, ExactCase, Looking

    noises, separations = sorted(command.noises), command.separations or (1.0,)
    own = GRID if not command.random_looks else CHAINED if command.chained else PAPER

    def case(study: str, noise: float, gap: float, looking: Looking, seeds: int) -> ExactCase:
        return ExactCase(study, command.model_class, noise, gap, looking, separations, seeds)

    gap_cases = [
        case("gap", noise, gap, looking, command.gap_seeds)
        for gap in sorted(command.gaps)
        for looking in EQUAL_LOOKS
        for noise in dict.fromkeys((noises[0], noises[-1]))
    ]
    return [case("episodes", noise, command.gap, own, command.seeds) for noise in noises] + gap_cases


def radius(command: ExactCommand, models: int) -> float:
    """beta for a class with this number of models."""
    from ctmle.theory import theory_beta, ville_beta

    if command.beta == "theory":
        return theory_beta(command.episodes, math.log(models), command.delta)
    return ville_beta(models, command.delta) if command.beta == "ville" else float(command.beta)


def run_exact(
    command: ExactCommand, report: "Report" = lambda done, total, case: None
) -> "tuple[Path, list[CaseResult]]":
    """Play a checked command and write its folder, whole or not at all. `report(done, total, case)` follows each case.

    The folder is chosen before anything is played and written after everything is.
    """
    from ctmle.lab.report.pictures import save
    from ctmle.lab.report.results import save_csv
    from ctmle.lab.storage.files import free_folder, whole_folder, write_json
    from ctmle.theory.exact.plots import plot_results
    from ctmle.theory.exact.study import play_cases, rows, worst_rows

    cases, path = cases_of(command), free_folder(command.out, f"runs/exact-{command.model_class}-seed{command.seed}")
    results = play_cases(cases, command.episodes, partial(radius, command), command.seed, report)
    with whole_folder(path) as folder:
        write_json(folder / "config.json", asdict(command))
        save_csv(folder / "instances.csv", rows(results))
        save_csv(folder / "worst.csv", worst_rows(results))
        for name, figure in plot_results(results, command.delta).items():
            save(figure, folder / f"{name}.png")
    return path, results


def main(arguments: list[str]) -> None:
    """Play what the words ask for."""
    command = checked(parse(ExactCommand, arguments, "ctmle exact"))
    from rich.console import Console

    from ctmle.lab.machine import use_compilation_cache
    from ctmle.theory.exact.study import worst_rows

    use_compilation_cache()
    console, started = Console(), time.perf_counter()
    console.print(
        f"exact CT-MLE on {command.model_class}: {command.episodes} episodes, {command.seeds} seeds,"
        f" {len(command.noises)} noise levels; about a minute in the default size"
    )

    def report(done: int, total: int, case: "ExactCase") -> None:
        seconds = time.perf_counter() - started
        console.print(
            f"{done}/{total} in {seconds:.0f} s: noise {case.noise:g}, gap {case.gap:g} s, {case.looking.name}",
            highlight=False,
        )

    folder, results = run_exact(command, report)
    worst = worst_rows(results)
    _print_regrets([row for row in worst if row["study"] == "episodes"])
    _print_gaps([row for row in worst if row["study"] == "gap"])
    console.print(_verdict(results, command.delta))
    console.print(f"tables, plots and settings: {folder}")


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table with right-aligned columns that do not wrap."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title)
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def _print_regrets(rows: list[dict[str, Any]]) -> None:
    found = [
        (f"{r['noise']:g}", f"{r['separation']}", _interval(r), f"{r['slope']:.2f}", f"{r['mean_variance']:.2g}",
         f"{r['regret_over_sqrt_beta_variance']:.3g}", f"{r['coverage']:.3f}", f"{r['models_left']:.1f}")
        for r in rows
    ]  # fmt: skip
    columns = ("noise", "worst e", "regret", "slope", "Var", "ratio", "coverage", "models left")
    print_table("regret after the last episode; ratio = regret / sqrt(beta sum Var)", columns, found)


def _print_gaps(rows: list[dict[str, Any]]) -> None:
    """Print one line per noise and gap, one column per way of looking."""
    lines: dict[tuple[str, ...], list[str]] = {}
    for r in rows:
        lines.setdefault((f"{r['noise']:g}", f"{r['gap']:g}", f"{r['looks_per_episode']}"), []).append(_interval(r))
    columns = ("noise", "gap", "looks", *dict.fromkeys(r["looking"] for r in rows))
    found = [(*key, *cells) for key, cells in sorted(lines.items())]
    print_table("regret at equal numbers of looks", columns, found)


def _interval(row: dict[str, Any]) -> str:
    return f"{row['regret']:.3g} +- {row['regret_high'] - row['regret']:.2g}"


def _verdict(results: "list[CaseResult]", delta: float) -> str:
    runs = [r.covers[..., -1] for r in results if r.case.study == "episodes"]
    covered, total = sum(int(run.sum()) for run in runs), sum(run.size for run in runs)
    empty = sum(float(r.empty.mean()) for r in results) / len(results)
    word = "at least" if covered / total >= 1 - delta else "BELOW"
    return (
        f"the truth stayed in both sets in {covered} of {total} runs ({word} 1 - delta = {1 - delta:g});"
        f" the sets had no model in common in {empty:.2%} of episodes"
    )
