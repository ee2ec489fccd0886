"""Commands that show something: `ctmle evaluate`, `ctmle compare`, `ctmle oracle` and `ctmle envs`."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

import tyro

from ctmle.lab.cli.parse import parse
from ctmle.lab.report import say
from ctmle.registry import ENVIRONMENTS
from ctmle.settings import Count, CountFromZero, Finite, NonNegative, Part, Positive, typed


@dataclass(frozen=True)
class EvaluateCommand(Part):
    """Score a saved policy again. The same seed gives the same score to the last digit."""

    run: tyro.conf.Positional[str]
    """Run folder, as `ctmle train` made it."""
    trajectories: Count | None = None
    """Test trajectories; none: as many as the run had."""
    test_seconds: Positive | None = None
    """Length of each test trajectory; none: as long as the run's."""
    rule: Literal["mean", "every", "goal", "return"] | None = None
    """Must the mean reward after the warm-up reach `success`, or every single one, or the share of trajectories that
    are at the goal, or the mean return that the plant pays? none: the run's rule."""
    success: Finite | None = None
    """Reward, or share at the goal, that counts as success; none: the run's."""
    which: Literal["final", "best", "random"] = "final"
    """The last policy; the one whose own training episode went best; or one of a random episode, as in the paper."""
    json: bool = False
    """Print one JSON object instead of a sentence."""
    environment: str | None = None
    """Place of the environment of your own that the run was trained on, such as tank.py:Tank."""
    trust: bool = False
    """Import code from outside ctmle that the run folder names."""


def evaluate(arguments: list[str]) -> None:
    """Score the run that the words name."""
    command = parse(EvaluateCommand, arguments, "ctmle evaluate")
    from ctmle.lab.machine import use_compilation_cache
    from ctmle.lab.run import Run
    from ctmle.lab.storage.run_folder import RunFolder

    use_compilation_cache()
    folder = RunFolder.open(command.run)
    experiment = folder.read_experiment(command.environment, trust=command.trust)
    asked = {
        "test_trajectories": command.trajectories,
        "test_seconds": command.test_seconds,
        "rule": command.rule,
        "success": command.success,
    }
    experiment = experiment.changed({name: value for name, value in asked.items() if value is not None})
    job = Run(experiment)
    checkpoint = folder.read_checkpoint(job.fits)
    if not checkpoint.log.records:
        again = typed("resume", folder.path)
        raise ValueError(f"{folder.path} has finished no episode yet: continue it with `{again}`")
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
        return
    told = f"score {score.mean:.6f} +- {score.standard_error:.6f} over {len(score.each)} trajectories"
    if score.success_at is not None:
        threshold = f"{score.success_at:g} or more"
        reached = {"every": f"always at {threshold}", "goal": "at the goal"}.get(score.rule, f"at {threshold}")
        verdict = "success" if score.success else "no success"
        told = f"{told} ({verdict}), {score.success_share:.0%} of them {reached}"
    print(f"{told}; {command.which} policy, episode {episode}")


@dataclass(frozen=True)
class CompareCommand(Part):
    """Compare runs: a table and a picture of scores against episodes and against looks.

    Means and standard errors are over the seeds of each agent; each environment and noise level has its own panel.
    """

    runs: tyro.conf.Positional[tuple[str, ...]]
    """Run folders, as `ctmle train` made them."""
    out: str = "comparison.png"
    """File for the picture."""
    json: bool = False
    """Print one JSON list instead of a table."""

    def check(self) -> None:
        if not self.runs:
            raise ValueError("give the run folders to compare, as `ctmle train` made them")
        if not self.out.endswith(".png"):
            raise ValueError(f"--out must end in .png, not {self.out!r}")


def compare(arguments: list[str]) -> None:
    """Compare the run folders that the words name."""
    command = parse(CompareCommand, arguments, "ctmle compare")
    from rich.console import Console

    from ctmle.lab.report import comparison
    from ctmle.lab.report.pictures import save
    from ctmle.lab.report.results import read_result
    from ctmle.lab.storage.files import unwritable

    panels = comparison.compare([read_result(path) for path in command.runs])
    out = Path(command.out)
    console = Console()
    if command.json:
        print(json.dumps([asdict(panel) for panel in panels]))
    for panel in [] if command.json else panels:
        console.print(comparison.comparison_table(panel))
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        save(comparison.plot_comparison(panels), out)
    except OSError as error:
        raise RuntimeError(
            f"{unwritable(error, out)}; the runs were only read. Fix that, or choose another --out for the picture"
        ) from error
    if not command.json:
        say(console, f"picture: {out}")


@dataclass(frozen=True)
class OracleCommand(Part):
    """Improve a policy in the true SDE: the u* that regret is measured against.

    The same improver as in training, but nothing has to be learned about the system.
    """

    environment: tyro.conf.Positional[str]
    """System to control (see `ctmle envs`)."""
    sigma: NonNegative = 2.0
    """[sigma] Noise level; the diffusion is sigma * unit on every coordinate."""
    unit: Positive | None = None
    """Diffusion per sigma; none: the environment's own."""
    episodes: Count = 8
    """Rounds of policy updates; the best round by its test score counts."""
    policy_updates: Count = 250
    """Policy updates per round."""
    trajectories: Count = 40
    """Test trajectories per round."""
    seed: CountFromZero = 0
    """Seed of everything random."""
    json: bool = False
    """Print one JSON object instead of lines."""


def oracle(arguments: list[str]) -> None:
    """Improve a policy in the true SDE of the system that the words name."""
    command = parse(OracleCommand, arguments, "ctmle oracle")
    if ":" not in command.environment:
        ENVIRONMENTS.check(command.environment)
    from ctmle.agents.model_based import ModelBasedAgent
    from ctmle.agents.oracle import Oracle
    from ctmle.lab.experiment import start
    from ctmle.lab.machine import use_compilation_cache
    from ctmle.lab.run import Run

    use_compilation_cache()
    options = {
        "sigma": command.sigma,
        "episodes": command.episodes,
        "seed": command.seed,
        "policy_updates": command.policy_updates,
        "policy_rounds": 1,
        "test_trajectories": command.trajectories,
    }
    experiment = start(command.environment).changed(options)
    if command.unit is not None:
        experiment = experiment.changed({"unit": command.unit})
    agent = experiment.agent
    assert isinstance(agent, ModelBasedAgent)  # the default agent is one
    env = Run(experiment).simulated.env
    job = Run(replace(experiment, agent=Oracle(env, agent.improver, exploration=agent.exploration)))
    best = None
    for _, record in job.episodes(job.init()):
        if not command.json:
            done = record["episode"] * command.policy_updates
            print(f"{done} updates: score {record['score']:.3f} +- {record['score_se']:.3f}", flush=True)
        if best is None or record["score"] > best["score"]:
            best = record
    assert best is not None  # episodes is at least 1
    if command.json:
        print(json.dumps(best))
    else:
        where = f"{command.environment} at sigma {command.sigma:g}"
        print(f"oracle on {where}: {best['score']:.4f} +- {best['score_se']:.4f}")


def envs(arguments: list[str]) -> None:
    """List every registered environment."""
    parse(_list_environments, arguments, "ctmle envs")


def _list_environments() -> None:
    """List the environments: dimensions, controls, horizon, noise and reward."""
    from rich.console import Console

    from ctmle.options import walk

    console = Console(highlight=False)
    for name in ENVIRONMENTS.names:
        env = ENVIRONMENTS.load(name)()
        bounds = zip(env.control_low, env.control_high, strict=True)
        settings = ", ".join(f"{option.name} {option.value}" for option in walk(env))
        console.print(f"[bold]{name}[/bold]: {(type(env).__doc__ or '').splitlines()[0]}")
        console.print(f"  state    {len(env.state_names)}: {', '.join(env.state_names)}")
        console.print(f"  control  {len(env.control_low)}: {', '.join(f'{low:g} to {high:g}' for low, high in bounds)}")
        console.print(f"  reward   per second: {(type(env).reward.__doc__ or '').splitlines()[0]}")
        console.print(f"  settings {settings}")
