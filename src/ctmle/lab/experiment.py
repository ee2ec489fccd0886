"""All settings of a run, as one tree of parts: system, agent, schedule, evaluation, files."""

import json
import logging
import sys
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from ctmle.agents.base import Agent
from ctmle.agents.model_based import ModelBasedAgent
from ctmle.envs.base import Env, Spec
from ctmle.envs.observation import ObservationKind
from ctmle.lab.systems import (
    System,
    is_trusted,
    load_environment,
    name_of,
    options_of,
    source_digest,
    spec_of,
    system_to_json,
)
from ctmle.options import apply, apply_each, build, describe, flat
from ctmle.registry import AGENTS, ENVIRONMENTS, REGISTRIES, no_such
from ctmle.schedules.base import Schedule
from ctmle.schedules.grid import Equidistant
from ctmle.settings import Count, CountFromZero, Finite, NonNegative, Part, Positive, option

MOST_STEPS = 10_000_000
"""More steps than this in one trajectory are a typing mistake."""

ORIGIN = ("environment", "agent", "preset")
"""Options that say which parts an experiment starts from."""

PARTS = ("agent", "schedule", "training", "evaluation", "files")

log = logging.getLogger("ctmle")

SuccessRule = Literal["mean", "every", "goal", "return"]


@dataclass(frozen=True)
class Evaluation(Part):
    """How a policy is judged."""

    test_trajectories: Count = 10
    """[N_test] Test trajectories at the end of every episode."""
    warm_up: NonNegative = 3.0
    """[T_warm-up] Seconds of each test trajectory before the reward counts."""
    test_seconds: Positive | None = None
    """Length of each test trajectory; none: the horizon."""
    rule: SuccessRule = "mean"
    """What must reach `success`: the mean of all rewards after the warm-up; every single one (ENODE's rule); the share
    of the test trajectories that are at the environment's goal all the time after the warm-up; or the mean return, the
    sum of what the plant itself pays."""
    success: Finite | None = 0.9
    """Reward, share of the test trajectories (rule goal) or return (rule return) that counts as success; none: no run
    is one."""
    test_gap: Positive = 0.05
    """Seconds between the points at which the reward of a test trajectory is taken."""

    def fits(self, spec: Spec, owner: str) -> None:
        """Raise ValueError if the rule asks for a goal, and the system has none."""
        if self.rule == "goal" and spec.state_goal is None:
            raise ValueError(f"rule goal needs a goal: write the method {owner}.goal(x), or choose --rule mean")
        if self.rule != "return" and spec.state_reward is None:
            raise ValueError(f"rule {self.rule} needs a reward that is known: {owner} is judged by --rule return")
        if self.rule == "return" and spec.state_reward is not None:
            raise ValueError(f"rule return is for plants that pay rewards themselves, which {owner} does not")


@dataclass(frozen=True)
class Training(Part):
    """How long a run trains, and how its plant is simulated."""

    observation: ObservationKind = "angles"
    """Coordinates that the agent sees: physical coordinates, or the paper's (cos, sin, velocity)."""
    step: Positive = 0.01
    """Longest step of the simulated plant, in seconds."""
    episodes: Count = 5
    """[N] Episodes after the initial data."""
    test_every: Count = 1
    """Episodes from one test to the next. Between tests an agent that can does everything in one compiled loop."""
    seed: CountFromZero = 0
    """Seed of everything random in the run."""
    stop_at_success: bool = False
    """End the run after the first episode whose test score is a success."""


@dataclass(frozen=True)
class Files(Part):
    """Folder of a run's files, how often they are written, and how many threads it has."""

    out: str | None = None
    """Run folder; none: runs/ENVIRONMENT-AGENT-sigma-seed with a number if that exists."""
    checkpoint_every: Count = 5
    """Chunks of updates between two checkpoints inside an episode; each episode ends with one in any case."""
    checkpoints_kept: Count = 2
    """How many of the newest checkpoints stay on the disk."""
    threads: Count | None = None
    """Threads to compute with; none: as many as there are cores."""


@dataclass(frozen=True)
class Experiment(Part):
    """Everything that a run is made of."""

    env: System
    agent: Agent
    environment: str = "pendulum"
    """Name of a registered environment, or where its class is: "file.py:Class" or "package.module:Class"."""
    algorithm: str = option("ct-mle", "agent")
    """Name of the agent that options started from."""
    preset: str = "default"
    """Preset that options started from."""
    schedule: Schedule = Equidistant()
    """When to look: every `gap` seconds, at random gaps with that mean, or at given times."""
    training: Training = Training()
    evaluation: Evaluation = Evaluation()
    files: Files = Files()

    @property
    def settings(self) -> dict[str, Any]:
        """Every option by its name."""
        return flat(self)

    def changed(self, options: dict[str, Any]) -> "Experiment":
        """Return the experiment with some options changed. Raises ValueError for one that cannot be, or is none."""
        return apply(self, {name: value for name, value in options.items() if name not in ORIGIN})

    def check(self) -> None:
        spec = spec_of(self.env, self.training.observation if isinstance(self.env, Env) else "angles")
        horizon, evaluation, training = spec.horizon, self.evaluation, self.training
        tested = evaluation.test_seconds or horizon
        scored = min(tested, horizon)
        if evaluation.warm_up >= scored:
            raise ValueError(
                f"warm_up {evaluation.warm_up:g} leaves nothing of the {scored:g} s of a trajectory to score"
            )
        if evaluation.test_gap > tested - evaluation.warm_up:
            raise ValueError(f"test_gap {evaluation.test_gap:g} is longer than the time that is scored")
        if training.test_every > training.episodes:
            raise ValueError(
                f"test_every {training.test_every} leaves no test in {training.episodes} episodes: choose a smaller one"
            )
        if self.agent.knows_horizon and evaluation.test_seconds not in (None, horizon):
            raise ValueError(
                f"test_seconds must be the horizon {horizon:g} s for {self.algorithm}, whose policy sees the time to go"
            )
        evaluation.fits(spec, name_of(self.env))
        self._check_steps(spec, tested)
        self.agent.fits(spec, self.schedule)

    def _check_steps(self, spec: Spec, tested: float) -> None:
        """Refuse trajectories of too many steps."""
        settings, horizon = {**flat(self.agent), **flat(self.schedule)}, spec.horizon
        agent = self.agent
        seconds = agent.longest(spec) if isinstance(agent, ModelBasedAgent) else horizon
        gap, samples = settings.get("gap", seconds), settings.get("policy_samples")
        imagined = samples * gap if samples else settings.get("policy_horizon", 1.0)
        for name, step, lasting in (
            ("step", self.training.step, max(tested, horizon)),
            ("test_gap", self.evaluation.test_gap, tested),
            ("gap", gap, seconds),
            ("longest_step", settings.get("longest_step", gap), gap),
            ("policy_step", settings.get("policy_step", 1.0), imagined),
            ("tick", settings.get("tick", 1.0), horizon),
        ):
            if lasting / step > MOST_STEPS:
                raise ValueError(
                    f"{name} {step:g} makes more than {MOST_STEPS} steps of {lasting:g} s: choose a longer one"
                )


@cache
def start(environment: str = "pendulum", agent: str = "ct-mle", preset: str = "default") -> Experiment:
    """Return the experiment that options start from: the agent's preset, and the system's tuned options."""
    make, presets = AGENTS.load(agent), presets_of(agent)
    if preset not in presets:
        raise ValueError(no_such(f"preset of {agent}", preset, list(presets)))
    env = load_environment(environment)()
    tuned: list[dict[str, Any]] = [options_of(env).get(name, {}) for name in ("", agent, f"{agent} {preset}")]
    # A system may be over before the usual warm-up is, and say so in its options.
    options = {"warm_up": Evaluation.warm_up, **tuned[0], **tuned[1], **presets[preset], **tuned[2]}
    parts = (env, make(), Equidistant(), Training(), Evaluation(warm_up=0.0), Files())
    env, agent_, *others = apply_each(parts, options)
    return Experiment(env, agent_, environment, agent, preset, *others)


def presets_of(agent: str) -> dict[str, dict[str, Any]]:
    """Return the presets of an agent: `PRESETS` in the module that defines it."""
    return getattr(sys.modules[AGENTS.load(agent).__module__], "PRESETS", {"default": {}})


def from_settings(settings: dict[str, Any]) -> Experiment:
    """Return the experiment that settings by name ask for; environment, agent and preset decide where they start."""
    origin = {name: settings[name] for name in ORIGIN if name in settings}
    for name, value in origin.items():
        if not isinstance(value, str):
            raise ValueError(f"{name} must be a text, not {value!r}")
    return start(**origin).changed(settings)


def to_json(experiment: Experiment) -> dict[str, Any]:
    """Write an experiment as JSON: its options by name for readers, and its exact parts to rebuild it from."""
    system = system_to_json(experiment.env, experiment.environment, experiment.training.observation)
    parts = {name: describe(getattr(experiment, name)) for name in PARTS}
    # Through JSON and back: what is written equals what is read.
    return json.loads(json.dumps({**experiment.settings, "system": system, "parts": parts}))


def from_json(content: dict[str, Any], environment: str | None = None, *, trust: bool = False) -> Experiment:
    """Rebuild the experiment that `to_json` wrote.

    Code from outside ctmle is imported only if it is registered, if the user names the `environment` again, or with
    `trust`. Raises ValueError otherwise, and for content that `to_json` did not write.
    """
    system = content["system"]
    asked = environment or system["environment"]
    if environment is None and not trust and not is_trusted(asked):
        raise ValueError(
            f"this run's environment is code from outside ctmle, {asked}: name it again with --environment, or pass"
            " --trust to import it"
        )
    env = load_environment(asked)(**{name: build(value) for name, value in system["settings"].items()})
    if system["source"] is not None and source_digest(env) != system["source"] and asked not in ENVIRONMENTS.names:
        log.warning("the source of %s has changed since this run was made", asked)
    parts = parts_from_json(content, trust=trust)
    return Experiment(env, environment=asked, algorithm=content["agent"], preset=content["preset"], **parts)


def parts_from_json(content: dict[str, Any], *, trust: bool = False) -> dict[str, Any]:
    """Rebuild the parts of an experiment by name, but for its environment."""
    known = {path for registry in REGISTRIES for path in registry.paths.values()}

    def trusted(path: str) -> bool:
        return trust or path.startswith("ctmle.") or path in known

    return {name: build(content["parts"][name], trusted) for name in PARTS}
