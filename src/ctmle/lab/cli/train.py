"""`ctmle train` and `ctmle resume`."""

from typing import Any

from rich.console import Console

from ctmle.config import ResumeCommand, TrainConfig
from ctmle.lab.cli.dispatch import run
from ctmle.lab.interrupt import Interrupted
from ctmle.lab.report.progress import Progress, episode_table, warnings_on
from ctmle.lab.session import Session
from ctmle.lab.storage.run_folder import RunFolder


@run.register
def _train(config: TrainConfig) -> None:
    _go(Session.begin(config), Console())


@run.register
def _resume(command: ResumeCommand) -> None:
    session, console = Session.take_up(command.run), Console()
    folder, checkpoint = session.folder, session.checkpoint
    if checkpoint is None:
        console.print(f"{folder.path} has no checkpoint yet: it starts anew")
        return _go(session, console)
    for warning in checkpoint.warnings:
        console.print(f"passed over a bad checkpoint: {warning}")
    if checkpoint.finished:
        console.print(f"{folder.path} is finished: there is nothing to resume")
        return _conclude(folder, session.job.config, checkpoint.records, console)
    console.print(f"resuming from {checkpoint.path}")
    return _go(session, console)


def _go(session: Session, console: Console) -> None:
    config, folder = session.job.config, session.folder
    console.print(
        f"{config.agent} on {config.environment}, sigma {config.sigma:g}, {config.looking}, seed {config.seed},"
        f" preset {config.preset}; run folder {folder.path}"
    )
    try:
        with Progress(config, console) as progress, warnings_on(console):
            records = session.train((progress,))
    except Interrupted as stop:
        console.print(f"{stop}; everything is saved. Go on with: ctmle resume {folder.path}", highlight=False)
        raise
    _conclude(folder, config, records, console)


def _conclude(folder: RunFolder, config: TrainConfig, records: list[dict[str, Any]], console: Console) -> None:
    from ctmle.lab.report.learning_curve import plot_learning_curve

    plot_learning_curve(folder.learning_curve, config, records)
    console.print(episode_table(records))
    console.print(_verdict(config, records))
    console.print(f"run folder: {folder.path} (config, metrics, weights, data and {folder.learning_curve.name})")
    console.print(f"next: ctmle evaluate {folder.path} --trajectories 100", highlight=False)


def _verdict(config: TrainConfig, records: list[dict[str, Any]]) -> str:
    first = next((r for r in records if r["success"]), None)
    goal = config.evaluation.success
    name, what = ("score", "a score") if config.evaluation.rule == "mean" else ("lowest_reward", "a lowest reward")
    if first is None:
        best = max(r[name] for r in records)
        return f"no episode reached {what} of {goal:g} (best {best:.3f}): more --episodes may help"
    return f"success: {what} of {goal:g} was first reached in episode {first['episode']} after {first['looks']} looks"
