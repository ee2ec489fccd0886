"""`ctmle evaluate` and `ctmle oracle`."""

import json
from dataclasses import replace

from ctmle.config import EvaluateCommand, OracleCommand, preset
from ctmle.lab.cli.dispatch import run
from ctmle.lab.machine import use_compilation_cache
from ctmle.lab.oracle import improve_on_truth
from ctmle.lab.run import Run
from ctmle.lab.storage.run_folder import RunFolder


@run.register
def _evaluate(command: EvaluateCommand) -> None:
    use_compilation_cache()
    folder = RunFolder.open(command.run)
    config = folder.read_config()
    asked = {
        "test_trajectories": command.trajectories,
        "test_seconds": command.test_seconds,
        "rule": command.rule,
        "success": command.success,
    }
    given = {name: value for name, value in asked.items() if value is not None}
    config = replace(config, evaluation=replace(config.evaluation, **given))
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
        "lowest_reward": score.lowest_reward,
        "trajectories": len(score.each),
    }
    if command.json:
        print(json.dumps(result))
    else:
        verdict = "success" if score.success else "no success"
        reached = "at" if score.rule == "mean" else "always at"
        print(
            f"score {score.mean:.6f} +- {score.standard_error:.6f} over {len(score.each)} trajectories ({verdict}),"
            f" {score.success_share:.0%} of them {reached} {config.evaluation.success:g} or more;"
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
