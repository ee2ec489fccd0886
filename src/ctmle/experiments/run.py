"""One run: the outer loop of alg:imp-friendly with its files, tests and progress around it."""

import dataclasses
import time
from collections.abc import Iterator
from enum import IntEnum
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from ctmle.agents.ct_mle import CTMLE, CTMLEState, Phase
from ctmle.checks import check_config
from ctmle.config import TrainConfig
from ctmle.data.trajectory import Trajectory, simulate
from ctmle.envs.base import Env
from ctmle.envs.registry import make
from ctmle.experiments.evaluate import Score, evaluate, imagined_score, observed_diffusion
from ctmle.experiments.interrupt import Interrupt, Interrupted
from ctmle.planning.optimism import eta
from ctmle.schedules.base import Looks, Schedule
from ctmle.schedules.grid import Equidistant
from ctmle.storage.files import only_writer
from ctmle.storage.run_folder import Checkpoint, RunFolder
from ctmle.storage.tensors import fill, save_tree

Record = dict[str, Any]


class Stream(IntEnum):
    """Purposes of randomness in a run. Tests have their own, so that looking at a policy never changes the training."""

    AGENT = 0
    PLANT = 1
    TEST = 2
    IMAGINATION = 3
    OUTPUT = 4


@runtime_checkable
class Watcher(Protocol):
    """Whoever wants to know how a run goes (a progress display, a test)."""

    def see(self, progress: Record) -> None: ...
    def episode(self, record: Record) -> None: ...


@dataclasses.dataclass(frozen=True)
class Moment:
    """A point between two pieces of work: the state, what comes next, and the record of an episode that just ended.

    A run can go on from any moment that is `resumable`; between acting and testing there is one that is not.
    """

    state: CTMLEState
    progress: Record
    record: Record | None = None
    resumable: bool = True


class Run:
    """The parts that a config names, and the loop that lets them meet."""

    def __init__(self, config: TrainConfig):
        check_config(config)
        self.config = config
        self.env = build_env(config)
        self.spec = self.env.spec_for(config.observation)
        self.schedule: Schedule = Equidistant(config.gap, config.random_looks)
        self.agent = CTMLE(config.learner)
        self.key = jax.random.key(config.seed)

    def stream(self, purpose: Stream, number: int = 0) -> PRNGKeyArray:
        return jax.random.fold_in(jax.random.fold_in(self.key, purpose), number)

    def init(self) -> CTMLEState:
        return self.agent.init(self.spec, self.stream(Stream.AGENT))

    def train(
        self, folder: RunFolder, watchers: tuple[Watcher, ...] = (), checkpoint: Checkpoint | None = None
    ) -> list[Record]:
        """Run every episode from the start, or on from a checkpoint; what has been done is always on the disk.

        Raises Interrupted, with a checkpoint written, when a signal asks to stop.
        """
        state = self.init() if checkpoint is None else self.restore(checkpoint)
        records = [] if checkpoint is None else list(checkpoint.records)
        chunks = 0
        with only_writer(folder.path), Interrupt() as interrupt:
            folder.write_metrics(records)
            for moment in self.steps(state):
                if moment.record is not None:
                    records.append(moment.record)
                    self.save_parts(folder, moment.state)
                    folder.write_metrics(records)
                for watcher in watchers:
                    watcher.see(moment.progress)
                    if moment.record is not None:
                        watcher.episode(moment.record)
                chunks += 1
                due = moment.record is not None or chunks % self.config.checkpoint_every == 0
                if moment.resumable and (due or interrupt.received):
                    self.save_checkpoint(folder, moment.state, records)
                if moment.resumable and interrupt.received:
                    raise Interrupted(interrupt.received)
        return records

    def steps(self, state: CTMLEState) -> Iterator["Moment"]:
        """The outer loop: believe, plan, act, look, write down; then test what was learned.

        Yields before every chunk of updates, before every test and after it.
        """
        agent = self.agent
        while (episode := agent.episode(state)) <= self.config.episodes:
            seconds = {"dynamics_seconds": 0.0, "policy_seconds": 0.0}
            while not agent.ready(state):
                phase = Phase(int(state.phase)).name.lower()
                yield Moment(state, self._progress(state, phase))
                started = time.perf_counter()
                state = jax.block_until_ready(agent.advance(state, self.schedule))
                seconds[f"{phase}_seconds"] += time.perf_counter() - started
                self._check_finite(state, episode, phase)
            while agent.episode(state) == episode:
                state, policy, looks = agent.propose(state, self.schedule)
                state = agent.observe(state, self.act(state, policy, looks))
            if episode > 0:
                progress = self._progress(state, "test")
                yield Moment(state, progress, resumable=False)
                record = self._record(state, episode, seconds)
                yield Moment(state, progress, record)
                if self.config.stop_at_success and record["success"]:
                    return

    def episodes(self, state: CTMLEState) -> Iterator[tuple[CTMLEState, Record]]:
        """The ends of episodes alone, for whoever needs no files."""
        for moment in self.steps(state):
            if moment.record is not None:
                yield moment.state, moment.record

    def score(self, policy: Any, episode: int) -> Score:
        """The test of an episode's policy; the same policy and episode give the same score to the last digit."""
        c = self.config
        return evaluate(
            self.env, policy, self.stream(Stream.TEST, episode), c.evaluation, step=c.step, observation=c.observation
        )

    def output(self, state: CTMLEState, which: str) -> tuple[Any, int]:
        """The policy that a run gives, with its episode: `final`, `best` by its own training episode, or `random`."""
        learner, count = self.config.learner, int(state.data.count)
        rows = range(learner.initial_trajectories, count)
        if which == "best":
            row = max(rows, key=lambda row: self.episode_score(state, row))
        elif which == "random":
            row = int(jax.random.randint(self.stream(Stream.OUTPUT), (), rows.start, rows.stop))
        else:
            row = count - 1
        policy = jax.tree.map(lambda leaf: leaf[row] if eqx.is_array(leaf) else leaf, state.data.policies)
        return policy, 1 + (row - rows.start) // learner.trajectories_per_episode

    def save_parts(self, folder: RunFolder, state: CTMLEState) -> None:
        """The trained parts, each in a file of its own, for whoever wants to take one elsewhere."""
        save_tree(folder.tensors("policy"), self.agent.policy(state))
        save_tree(folder.tensors("critic"), state.actor_critic.critic)
        save_tree(folder.tensors("model"), state.belief.ensemble)
        save_tree(folder.tensors("data"), state.data)

    def save_checkpoint(self, folder: RunFolder, state: CTMLEState, records: list[Record]) -> None:
        c = self.config
        stopped = c.stop_at_success and any(record["success"] for record in records)
        folder.save_checkpoint(
            state,
            records,
            finished=len(records) >= c.episodes or stopped,
            random_looks=state.data.random,
            keep=c.checkpoints_kept,
        )

    def restore(self, checkpoint: Checkpoint) -> CTMLEState:
        """The agent as it was: it continues as if it had never stopped."""
        like = self.init()
        data = dataclasses.replace(like.data, random=checkpoint.random_looks)
        return fill(checkpoint.path, checkpoint.arrays, dataclasses.replace(like, data=data))

    def act(self, state: CTMLEState, policy: Any, looks: Looks) -> Trajectory:
        """Run a policy on the simulated plant and look at it."""
        c = self.config
        key = self.stream(Stream.PLANT, self.agent.trajectories(state))
        return simulate(self.env, policy, looks, key, step=c.step, observation=c.observation)

    def _check_finite(self, state: CTMLEState, episode: int, phase: str) -> None:
        """Stop before a number that is not one reaches a checkpoint: the last one is from before the trouble."""
        where = f"in the {phase} phase of episode {episode}, before update {int(state.step) or 'the last'}"
        hint = "a smaller --dynamics-rate or --policy-rate, or a larger --diffusion-floor, may help"
        for name, value in state.metrics.items():
            if not np.isfinite(value):
                raise ValueError(f"{name} became {float(value)} {where}: {hint}; the last checkpoint is from before")
        if phase == "policy" and float(state.metrics["skipped_updates"]) == 1.0:
            raise ValueError(f"every imagined trajectory ran away {where}: {hint}; the last checkpoint is from before")

    def _progress(self, state: CTMLEState, phase: str) -> Record:
        metrics = {name: float(value) for name, value in state.metrics.items()}
        return {
            "episode": self.agent.episode(state) - (phase == "test"),
            "phase": phase,
            "step": int(state.step),
            "looks": int(state.data.looks),
            **metrics,
        }

    def _record(self, state: CTMLEState, episode: int, seconds: dict[str, float]) -> Record:
        started = time.perf_counter()
        c, learner, data = self.config, self.config.learner, state.data
        last = int(data.count) - 1
        score = self.score(self.agent.policy(state), episode)
        world = self.agent.world(state)
        imagined = imagined_score(
            world,
            self.spec,
            state.actor_critic.feedback,
            self.stream(Stream.IMAGINATION, episode),
            c.evaluation,
            step=learner.policy_step,
        )
        y, u = data.states[last], data.controls[last]
        members = jnp.broadcast_to(y, (world.members, *y.shape)), jnp.broadcast_to(u, (world.members, *u.shape))
        learned = jnp.mean(world.diffusion(*members), axis=(0, 1))
        losses = {name: float(value) for name, value in sorted(state.metrics.items())}
        return {
            "episode": episode,
            "score": score.mean,
            "score_se": score.standard_error,
            "success": score.success,
            "success_share": score.success_share,
            "imagined_score": imagined,
            "episode_score": self.episode_score(state, last),
            "looks": int(data.looks),
            **losses,
            "eta": eta(learner.eta_base, episode),
            "diffusion_learned": np.asarray(learned, float).tolist(),
            "diffusion_true": np.asarray(observed_diffusion(self.env, self.spec, y, u), float).tolist(),
            **seconds,
            "test_seconds": time.perf_counter() - started,
        }

    def episode_score(self, state: CTMLEState, row: int) -> float:
        """The mean reward after the warm-up at the looks of a training trajectory: costs no test trajectories."""
        data = state.data
        rewards = np.asarray(self.spec.reward(data.states[row], data.controls[row]), float)
        counted = np.asarray(data.times[row]) >= self.config.evaluation.warm_up
        return float(rewards[counted].mean())


def build_env(config: TrainConfig) -> Env:
    """The environment that a config names. Raises ValueError where a setting does not fit it."""
    settings: dict[str, Any] = {"sigma": config.sigma, "horizon": config.horizon}
    if config.unit is not None:
        settings["unit"] = config.unit
    if config.uniform_start:
        settings["start"] = "uniform"
    if config.bang_bang:
        settings["bang_bang"] = True
    if config.underactuated:
        settings["underactuated"] = True
    return make(config.environment, **settings)
