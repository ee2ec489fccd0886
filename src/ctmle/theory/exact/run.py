"""`ctmle exact` from settings to a folder: play, tabulate, draw, write all of it or nothing."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from ctmle.config.exact import ExactConfig
from ctmle.lab.report.tables import save_csv
from ctmle.lab.storage.files import write_json
from ctmle.lab.storage.results import free_folder, whole_folder
from ctmle.theory.exact.cases import Case
from ctmle.theory.exact.plots import plot_all
from ctmle.theory.exact.summary import rows, worst_rows
from ctmle.theory.exact.sweep import Outcome, sweep


def run_exact(config: ExactConfig, report: Callable[[int, int, Case], None]) -> tuple[Path, list[Outcome]]:
    """Plays a resolved configuration. The folder is chosen before and written after everything is played."""
    path = free_folder(config.out, f"runs/exact-{config.model_class}-seed{config.seed}")
    outcomes = sweep(config, report)
    with whole_folder(path) as folder:
        write_json(folder / "config.json", _listed(asdict(config)))
        save_csv(folder / "instances.csv", rows(outcomes))
        save_csv(folder / "worst.csv", worst_rows(outcomes))
        plot_all(folder, outcomes, config.delta)
    return path, outcomes


def _listed(settings: dict[str, object]) -> dict[str, object]:
    """Lists, not tuples: so that what is written equals what is read."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}
