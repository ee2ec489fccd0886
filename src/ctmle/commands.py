"""What each command of the command line does."""

import json
import os
from dataclasses import replace
from functools import singledispatch
from pathlib import Path
from typing import Any

import jax
from rich.console import Console

from ctmle.config import EnvsCommand, EvaluateCommand, OracleCommand, ResumeCommand, TrainConfig, preset
from ctmle.envs.registry import ENVIRONMENTS, make
from ctmle.experiments.interrupt import Interrupted
from ctmle.experiments.oracle import improve_on_truth
from ctmle.experiments.run import Run
from ctmle.report.progress import Progress, episode_table
from ctmle.storage.run_folder import Checkpoint, RunFolder

REWARDS = {
    "pendulum": "upright and still: exp(-((1-cos)^2 + sin^2) - 0.01 w^2) - 0.01 u^2",
    "cartpole": "tip upright at the centre: exp(-distance^2 - 0.01 (v^2+w^2)) - 0.01 u^2",
    "cartpole-swingup": "the same, from hanging",
    "acrobot": "tip straight up: exp(-distance^2 - 0.01 (w1^2+w2^2)) - 1e-4 u'u",
    "linear-quadratic": "1 - x^2 - 0.1 u^2 (the optimum is known)",
}


@singledispatch
def run(command: Any) -> None:
    raise TypeError(f"not a command: {command!r}")


@run.register
def _train(config: TrainConfig) -> None:
    job = Run(config)
    folder = RunFolder.create(config)
    _go(job, folder, None, Console())


@run.register
def _resume(command: ResumeCommand) -> None:
    folder, console = RunFolder.open(command.run), Console()
    job = Run(folder.read_config())
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
        f"{config.agent} on {config.environment}, sigma {config.sigma:g}, gap {config.gap:g} s, seed {config.seed},"
        f" preset {config.preset}; run folder {folder.path}"
    )
    try:
        with Progress(config, console) as progress:
            records = job.train(folder, (progress,), checkpoint)
    except Interrupted as stop:
        console.print(f"{stop}; everything is saved. Go on with: ctmle resume {folder.path}", highlight=False)
        raise
    except OSError as error:
        raise OSError(
            f"cannot write to {folder.path}: {error.strerror or error}; what was saved before is intact."
            f" Mend that, then: ctmle resume {folder.path}"
        ) from error
    _conclude(folder, config, records, console)


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
    if first is None:
        best = max(r["score"] for r in records)
        return f"no episode reached a score of {goal:g} (best {best:.3f}): more --episodes or a smaller --gap may help"
    return f"success: a score of {goal:g} was first reached in episode {first['episode']} after {first['looks']} looks"


@run.register
def _evaluate(command: EvaluateCommand) -> None:
    use_compilation_cache()
    folder = RunFolder.open(command.run)
    config = folder.read_config()
    if command.trajectories is not None:
        config = replace(config, evaluation=replace(config.evaluation, test_trajectories=command.trajectories))
    job = Run(config)
    checkpoint = folder.read_checkpoint()
    if not checkpoint.records:
        raise ValueError(f"{folder.path} has finished no episode yet: go on with `ctmle resume {folder.path}`")
    policy, episode = job.output(job.restore(checkpoint), command.which)
    score = job.score(policy, episode)
    result = {
        "run": str(folder.path),
        "which": command.which,
        "episode": episode,
        "score": score.mean,
        "score_se": score.standard_error,
        "success": score.success,
        "success_share": score.success_share,
        "trajectories": len(score.each),
    }
    if command.json:
        print(json.dumps(result))
    else:
        verdict = "success" if score.success else "no success"
        print(
            f"score {score.mean:.6f} +- {score.standard_error:.6f} over {len(score.each)} trajectories ({verdict}),"
            f" {score.success_share:.0%} of them at {config.evaluation.success:g} or more;"
            f" {command.which} policy, episode {episode}"
        )


@run.register
def _oracle(command: OracleCommand) -> None:
    use_compilation_cache()
    start = preset(command.environment, "default")
    config = replace(
        start,
        sigma=command.sigma,
        unit=command.unit,
        episodes=command.episodes,
        seed=command.seed,
        learner=replace(start.learner, policy_updates=command.policy_updates, bootstrap_episodes=1),
        evaluation=replace(start.evaluation, test_trajectories=command.trajectories),
    )
    best = None
    for record in improve_on_truth(config):
        if not command.json:
            done = record["episode"] * command.policy_updates
            print(f"{done} updates: score {record['score']:.3f} +- {record['score_se']:.3f}", flush=True)
        if best is None or record["score"] > best["score"]:
            best = record
    assert best is not None  # episodes is at least 1
    if command.json:
        print(json.dumps(best))
    else:
        print(
            f"oracle on {command.environment} at sigma {command.sigma:g}: {best['score']:.4f} +- {best['score_se']:.4f}"
        )


@run.register
def _envs(command: EnvsCommand) -> None:
    console = Console(highlight=False)
    for name in ENVIRONMENTS:
        env: Any = make(name)
        bounds = zip(env.control_low, env.control_high, strict=True)
        controls = ", ".join(f"{low:g} to {high:g}" for low, high in bounds)
        console.print(f"[bold]{name}[/bold]: {(type(env).__doc__ or '').splitlines()[0]}")
        console.print(f"  state    {len(env.state_names)}: {', '.join(env.state_names)}")
        console.print(f"  control  {len(env.control_low)}: {controls}")
        console.print(f"  horizon  {env.horizon:g} s")
        console.print(f"  noise    diffusion sigma * {env.unit:g} on every coordinate ({2 * env.unit:g} at sigma 2)")
        console.print(f"  reward   per second, at most 1: {REWARDS[name]}")


def use_compilation_cache() -> None:
    """Compiled programs are kept between runs, so that a second run starts at once."""
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
        jax.config.update("jax_compilation_cache_dir", str(home / "ctmle" / "jax"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
