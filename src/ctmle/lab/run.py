"""One run: the outer loop of alg:imp-friendly with its files, tests and progress around it."""

import dataclasses
import math
import time
from collections import defaultdict
from collections.abc import Generator, Iterator
from contextlib import nullcontext
from enum import IntEnum
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from ctmle.agents.base import Agent, ModelBased, Practising, Standing
from ctmle.agents.registry import build_agent
from ctmle.checks import check_config
from ctmle.config import TrainConfig
from ctmle.data.dataset import Dataset
from ctmle.data.finite import check_rewards, simulate_safely
from ctmle.data.trajectory import Trajectory, simulate
from ctmle.envs.base import Env
from ctmle.envs.check import check_env
from ctmle.envs.registry import make
from ctmle.lab.evaluate import (
    Score,
    evaluate,
    imagined_score,
    learned_diffusion,
    observed_diffusion,
    rewards_of,
)
from ctmle.lab.interrupt import Interrupt, Interrupted
from ctmle.lab.storage.files import only_writer
from ctmle.lab.storage.run_folder import Checkpoint, RunFolder, is_complete
from ctmle.lab.storage.trees import arrays_of, fill, save_tree
from ctmle.schedules.base import DecidedLooks, Looks, Schedule
from ctmle.schedules.registry import make_schedule

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

    state: Any
    progress: Record
    record: Record | None = None
    resumable: bool = True


class Run:
    """The parts that a config names, and the loop that lets them meet."""

    def __init__(self, config: TrainConfig, env: Env | None = None):
        """With a system of your own, `env`, in place of the one that the config names. It is checked at the door."""
        check_config(config)
        if env is not None:
            check_env(env)
        self.config = config
        self.env = build_env(config) if env is None else env
        self.spec = self.env.spec_for(config.observation)
        self.schedule: Schedule = make_schedule(config.grid, config.gap, config.random_looks)
        self.agent: Agent = build_agent(config.learner, config.episodes)
        self.key = jax.random.key(config.seed)

    def stream(self, purpose: Stream, number: int = 0) -> PRNGKeyArray:
        return jax.random.fold_in(jax.random.fold_in(self.key, purpose), number)

    def init(self) -> Any:
        return self.agent.init(self.spec, self.stream(Stream.AGENT))

    def train(
        self,
        folder: RunFolder,
        watchers: tuple[Watcher, ...] = (),
        checkpoint: Checkpoint | None = None,
        interrupt: Interrupt | None = None,
    ) -> list[Record]:
        """Run every episode from the start, or on from a checkpoint; what has been done is always on the disk.

        Raises Interrupted, with a checkpoint written, when a signal asks to stop, or whoever holds `interrupt`.
        """
        state = self.init() if checkpoint is None else self.restore(checkpoint)
        records = [] if checkpoint is None else list(checkpoint.records)
        chunks = 0
        asking = Interrupt() if interrupt is None else nullcontext(interrupt)
        with only_writer(folder.path), asking as asked:
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
                if moment.resumable and (due or asked.received):
                    self.save_checkpoint(folder, moment.state, records)
                if moment.resumable and asked.received:
                    raise Interrupted(asked.received)
        return records

    def steps(self, state: Any) -> Iterator["Moment"]:
        """The outer loop: believe, plan, act, look, write down; then test what was learned.

        Yields before every chunk of updates, before every test and after it.
        """
        agent, c = self.agent, self.config
        while (standing := agent.standing(state)).episode <= c.episodes:
            seconds: dict[str, float] = defaultdict(float)
            if standing.episode > 0 and c.test_every > 1 and isinstance(agent, Practising):
                yield Moment(state, _progress(standing))
                state, standing = self._practise(agent, state, standing, seconds)
            else:
                state, standing = yield from self._episode(state, standing, seconds)
            episode = standing.episode
            if episode > 0 and (episode % c.test_every == 0 or episode == c.episodes):
                standing = dataclasses.replace(standing, phase="test", looks=agent.standing(state).looks)
                yield Moment(state, _progress(standing), resumable=False)
                record = self._record(state, standing, seconds)
                yield Moment(state, _progress(standing), record)
                if c.stop_at_success and record["success"]:
                    return

    def _episode(
        self, state: Any, standing: Standing, seconds: dict[str, float]
    ) -> Generator["Moment", None, tuple[Any, Standing]]:
        """One episode, with a moment before every chunk of updates. Gives back where the agent stood when it acted."""
        agent = self.agent
        while not agent.ready(state):
            yield Moment(state, _progress(standing))
            started = time.perf_counter()
            state = jax.block_until_ready(agent.advance(state, self.schedule))
            seconds[f"{standing.phase}_seconds"] += time.perf_counter() - started
            standing = agent.standing(state)
        while agent.standing(state).episode == standing.episode:
            state, policy, looks = agent.propose(state, self.schedule)
            state = agent.observe(state, self.act(state, policy, looks))
        return state, standing

    def _practise(
        self, agent: Practising, state: Any, standing: Standing, seconds: dict[str, float]
    ) -> tuple[Any, Standing]:
        """Every episode up to the next test, in one compiled loop."""
        c, started = self.config, time.perf_counter()
        last = min(c.episodes, c.test_every * math.ceil(standing.episode / c.test_every))
        count = (last - standing.episode + 1) * c.learner.trajectories_per_episode
        numbers = range(standing.trajectories, standing.trajectories + count)
        keys = jnp.stack([self.stream(Stream.PLANT, number) for number in numbers])
        state = agent.practise(state, self.env, keys, step=c.step, observation=c.observation)
        standing = dataclasses.replace(agent.standing(jax.block_until_ready(state)), episode=last)
        seconds["updates_seconds"] += time.perf_counter() - started
        return state, standing

    def episodes(self, state: Any) -> Iterator[tuple[Any, Record]]:
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

    def output(self, state: Any, which: str) -> tuple[Any, int]:
        """The policy that a run gives, with its episode: `final`, `best` by its own training episode, or `random`."""
        pasts = self.agent.history(state)
        if which == "best":
            past = max(pasts, key=lambda past: self.episode_score(past.trajectory))
        elif which == "random":
            past = pasts[int(jax.random.randint(self.stream(Stream.OUTPUT), (), 0, len(pasts)))]
        else:
            past = pasts[-1]
        return past.policy, past.episode

    def save_parts(self, folder: RunFolder, state: Any) -> None:
        """The trained parts, each in a file of its own, for whoever wants to take one elsewhere."""
        for name, part in self.agent.parts(state).items():
            save_tree(folder.tensors(name), part)

    def save_checkpoint(self, folder: RunFolder, state: Any, records: list[Record]) -> None:
        folder.save_checkpoint(
            arrays_of(state),
            records,
            finished=is_complete(self.config, records),
            keep=self.config.checkpoints_kept,
        )

    def restore(self, checkpoint: Checkpoint) -> Any:
        """The agent as it was: it continues as if it had never stopped."""

        def as_saved(place: Any, node: Any) -> Any:
            """Datasets grow, so their size is the file's. Which looks are random the settings know."""
            times = checkpoint.arrays.get(f"{jax.tree_util.keystr(place)}.times")
            if not isinstance(node, Dataset) or times is None or times.ndim != 2:
                return node
            return node.room(*times.shape, random=self.config.random_looks)

        def like() -> Any:
            return jax.tree_util.tree_map_with_path(
                as_saved, self.init(), is_leaf=lambda node: isinstance(node, Dataset)
            )

        return fill(checkpoint.path, checkpoint.arrays, eqx.filter_eval_shape(like))

    def act(self, state: Any, policy: Any, looks: Looks | DecidedLooks) -> Trajectory:
        """Run a policy on the simulated plant and look at it."""
        c, standing = self.config, self.agent.standing(state)
        key = self.stream(Stream.PLANT, standing.trajectories)

        def simulation(step: float, stop_short: bool) -> Trajectory:
            return simulate(self.env, policy, looks, key, step=step, observation=c.observation, stop_short=stop_short)

        what = f"trajectory {standing.trajectories} (episode {standing.episode})"
        trajectory = simulate_safely(self.env, self.spec.observation, simulation, c.step, what)
        self._rewards(trajectory, what)
        return trajectory

    def _record(self, state: Any, standing: Standing, seconds: dict[str, float]) -> Record:
        started, episode = time.perf_counter(), standing.episode
        score = self.score(self.agent.policy(state), episode)
        last = self.agent.history(state)[-1].trajectory
        times = np.asarray(last.times)
        return {
            "episode": episode,
            "score": score.mean,
            "score_se": score.standard_error,
            "success": score.success,
            "success_share": score.success_share,
            "lowest_reward": score.lowest_reward,
            "episode_score": self.episode_score(last),
            "looks": standing.looks,
            "mean_gap": float(times[-1] - times[0]) / (last.looks - 1),
            **standing.metrics,
            **(self._beliefs(self.agent, state, episode) if isinstance(self.agent, ModelBased) else {}),
            **seconds,
            "test_seconds": time.perf_counter() - started,
        }

    def _beliefs(self, agent: ModelBased, state: Any, episode: int) -> Record:
        """What the agent believes beside the truth: the score it expects, and the diffusion it learned, if any."""
        world, last = agent.world(state), agent.history(state)[-1].trajectory
        imagined = imagined_score(
            world,
            self.spec,
            agent.policy(state).feedback,
            self.stream(Stream.IMAGINATION, episode),
            self.config.evaluation,
            step=self.config.learner.policy_step,
        )
        if not world.noisy:
            return {"imagined_score": imagined}
        y, u = last.states, last.controls
        return {
            "imagined_score": imagined,
            "diffusion_learned": np.asarray(learned_diffusion(world, y, u), float).tolist(),
            "diffusion_true": np.asarray(observed_diffusion(self.env, self.spec, y, u), float).tolist(),
        }

    def episode_score(self, trajectory: Trajectory) -> float:
        """The mean reward after the warm-up at the looks of a training trajectory: costs no test trajectories.

        A trajectory that ends before the warm-up is scored over all of its looks.
        """
        rewards = self._rewards(trajectory, "a trajectory of an episode")
        counted = np.asarray(trajectory.times) >= self.config.evaluation.warm_up
        return float(rewards[counted if counted.any() else slice(None)].mean())

    def _rewards(self, trajectory: Trajectory, what: str) -> np.ndarray:
        """At every look. The last is repeated up to a power of two: that many numbers of looks are compiled for."""
        looks = trajectory.looks
        padded = np.minimum(np.arange(1 << (looks - 1).bit_length()), looks - 1)
        states, controls = (np.asarray(column)[padded] for column in (trajectory.states, trajectory.controls))
        rewards = np.asarray(rewards_of(self.spec, jax.device_put(states), jax.device_put(controls)), float)[:looks]
        check_rewards(self.env, np.asarray(trajectory.states, float), rewards, f"in {what}")
        return rewards


def _progress(standing: Standing) -> Record:
    """As one flat record, which is what watchers see."""
    where = {name: value for name, value in vars(standing).items() if name != "metrics"}
    return {**where, **standing.metrics}


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
