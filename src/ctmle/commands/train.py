"""`ctmle train` and `ctmle resume`."""

from typing import Any

from rich.console import Console

from ctmle.commands.dispatch import run, use_compilation_cache, use_threads
from ctmle.config import ResumeCommand, TrainConfig
from ctmle.experiments.interrupt import Interrupted
from ctmle.experiments.run import Run
from ctmle.finite import NotFinite
from ctmle.report.progress import Progress, episode_table, warnings_on
from ctmle.storage.run_folder import Checkpoint, RunFolder


@run.register
def _train(config: TrainConfig) -> None:
    use_threads(config.threads)
    job = Run(config)
    folder = RunFolder.create(config)
    _go(job, folder, None, Console())


@run.register
def _resume(command: ResumeCommand) -> None:
    folder, console = RunFolder.open(command.run), Console()
    config = folder.read_config()
    use_threads(config.threads)
    job = Run(config)
    if not folder.checkpoints:
        console.print(f"{folder.path} has no checkpoint yet: it starts anew")
        return _go(job, folder, None, console)
    checkpoint = folder.read_checkpoint()
    for warning in checkpoint.warnings:
        console.print(f"passed over a bad checkpoint: {warning}")
    if checkpoint.finished:
        console.print(f"{folder.path} is finished: there is nothing to resume")
        return _conclude(folder, job.config, checkpoint.records, console)
    console.print(f"resuming from {checkpoint.path}")
    return _go(job, folder, checkpoint, console)


def _go(job: Run, folder: RunFolder, checkpoint: Checkpoint | None, console: Console) -> None:
    use_compilation_cache()
    config = job.config
    console.print(
        f"{config.agent} on {config.environment}, sigma {config.sigma:g}, {config.looking}, seed {config.seed},"
        f" preset {config.preset}; run folder {folder.path}"
    )
    try:
        with Progress(config, console) as progress, warnings_on(console):
            records = job.train(folder, (progress,), checkpoint)
    except Interrupted as stop:
        console.print(f"{stop}; everything is saved. Go on with: ctmle resume {folder.path}", highlight=False)
        raise
    except NotFinite as trouble:
        raise RuntimeError(
            f"{trouble}. The run stopped; its checkpoints in {folder.path} are from before the trouble"
        ) from trouble
    except OSError as error:
        raise RuntimeError(_what_to_do(folder, error)) from error
    _conclude(folder, config, records, console)


def _what_to_do(folder: RunFolder, error: OSError) -> str:
    """About a disk that is full, or a folder that is gone or not ours to write to."""
    reason = error.strerror or str(error)
    if not folder.config_file.exists():
        return f"the run folder {folder.path} was deleted while the run was going on ({reason}): start the run anew"
    return (
        f"cannot write to {folder.path} ({reason}); what was saved before is intact."
        f" Mend that, then go on with: ctmle resume {folder.path}"
    )


def _conclude(folder: RunFolder, config: TrainConfig, records: list[dict[str, Any]], console: Console) -> None:
    from ctmle.report.learning_curve import plot_learning_curve

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
