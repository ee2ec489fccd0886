"""`ctmle exact`."""

import time
from typing import Any

from rich.console import Console
from rich.table import Table

from ctmle.config.exact import ExactConfig, resolved
from ctmle.lab.cli.dispatch import run
from ctmle.lab.machine import use_compilation_cache
from ctmle.theory.exact.cases import EQUAL_LOOKS, Case
from ctmle.theory.exact.run import run_exact
from ctmle.theory.exact.summary import worst_rows
from ctmle.theory.exact.sweep import Outcome


@run.register
def _exact(config: ExactConfig) -> None:
    config = resolved(config)
    use_compilation_cache()
    console, started = Console(), time.perf_counter()
    console.print(
        f"exact CT-MLE on {config.model_class}: {config.episodes} episodes, {config.seeds} seeds,"
        f" {len(config.noises)} noise levels; about a minute in the default size"
    )

    def report(done: int, total: int, case: Case) -> None:
        seconds = time.perf_counter() - started
        console.print(
            f"{done}/{total} in {seconds:.0f} s: noise {case.noise:g}, gap {case.gap:g} s, {case.looking.name}",
            highlight=False,
        )

    folder, outcomes = run_exact(config, report)
    console.print(_regret_table([o for o in outcomes if o.case.study == "episodes"]))
    console.print(_gap_table([o for o in outcomes if o.case.study == "gap"]))
    console.print(_verdict(outcomes, config.delta))
    console.print(f"tables, plots and settings: {folder}")


def _table(title: str, rows: list[tuple[str, ...]], columns: tuple[str, ...]) -> Table:
    table = Table(title=title)
    for name in columns:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*row)
    return table


def _regret_table(outcomes: list[Outcome]) -> Table:
    found = [
        (f"{r['noise']:g}", f"{r['separation']}", _interval(r), f"{r['slope']:.2f}", f"{r['mean_variance']:.2g}",
         f"{r['regret_over_sqrt_beta_variance']:.3g}", f"{r['coverage']:.3f}", f"{r['models_left']:.1f}")
        for r in worst_rows(outcomes)
    ]  # fmt: skip
    columns = ("noise", "worst e", "regret", "slope", "Var", "ratio", "coverage", "models left")
    return _table("regret after the last episode; ratio = regret / sqrt(beta sum Var)", found, columns)


def _gap_table(outcomes: list[Outcome]) -> Table:
    """One line per noise and gap, one column per way of looking."""
    lines: dict[tuple[str, ...], list[str]] = {}
    for r in worst_rows(outcomes):
        lines.setdefault((f"{r['noise']:g}", f"{r['gap']:g}", f"{r['looks_per_episode']}"), []).append(_interval(r))
    columns = ("noise", "gap", "looks", *(looking.name for looking in EQUAL_LOOKS))
    return _table("regret at equal numbers of looks", [(*key, *cells) for key, cells in sorted(lines.items())], columns)


def _interval(row: dict[str, Any]) -> str:
    return f"{row['regret']:.3g} +- {row['regret_high'] - row['regret']:.2g}"


def _verdict(outcomes: list[Outcome], delta: float) -> str:
    runs = [o for o in outcomes if o.case.study == "episodes"]
    covered = sum(int((o.grid_covers & o.extra_covers)[..., -1].sum()) for o in runs)
    total = sum(o.grid_covers[..., -1].size for o in runs)
    empty = sum(float(o.empty.mean()) for o in outcomes) / len(outcomes)
    word = "at least" if covered / total >= 1 - delta else "BELOW"
    return (
        f"the truth stayed in both sets in {covered} of {total} runs ({word} 1 - delta = {1 - delta:g});"
        f" the sets had no model in common in {empty:.2%} of episodes"
    )
