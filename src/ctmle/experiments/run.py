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
from ctmle.planning.optimism import eta
from ctmle.schedules.base import Looks, Schedule
from ctmle.schedules.grid import Equidistant
from ctmle.storage.run_folder import RunFolder
from ctmle.storage.tensors import load_tree, read_metadata, save_tree

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

    def progress(self, record: Record) -> None: ...
    def episode(self, record: Record) -> None: ...


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

    def train(self, folder: RunFolder, watchers: tuple[Watcher, ...] = ()) -> list[Record]:
        """Run every episode, and leave its record and the trained parts in the folder as soon as it ends."""
        records: list[Record] = []
        for state, record in self.episodes(self.init(), watchers):
            records.append(record)
            folder.append_metrics(record)
            self.save(folder, state)
            for watcher in watchers:
                watcher.episode(record)
        return records

    def episodes(self, state: CTMLEState, watchers: tuple[Watcher, ...] = ()) -> Iterator[tuple[CTMLEState, Record]]:
        """The whole of the outer loop: believe, plan, act, look, write down; then test what was learned."""
        agent = self.agent
        while (episode := agent.episode(state)) <= self.config.episodes:
            seconds = {"dynamics_seconds": 0.0, "policy_seconds": 0.0}
            while not agent.ready(state):
                phase, started = Phase(int(state.phase)).name.lower(), time.perf_counter()
                for watcher in watchers:
                    watcher.progress(self._progress(state, phase))
                state = jax.block_until_ready(agent.advance(state, self.schedule))
                seconds[f"{phase}_seconds"] += time.perf_counter() - started
            while agent.episode(state) == episode:
                state, policy, looks = agent.propose(state, self.schedule)
                state = agent.observe(state, self.act(state, policy, looks))
            if episode > 0:
                for watcher in watchers:
                    watcher.progress(self._progress(state, "test"))
                record = self._record(state, episode, seconds)
                yield state, record
                if self.config.stop_at_success and record["success"]:
                    return

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

    def save(self, folder: RunFolder, state: CTMLEState) -> None:
        save_tree(folder.tensors("policy"), self.agent.policy(state))
        save_tree(folder.tensors("critic"), state.actor_critic.critic)
        save_tree(folder.tensors("model"), state.belief.ensemble)
        save_tree(folder.tensors("data"), state.data)
        save_tree(folder.tensors("state"), state, random_looks=str(state.data.random))

    def load(self, folder: RunFolder) -> CTMLEState:
        """The agent as it was after the last finished episode: it continues as if it had never stopped."""
        like, path = self.init(), folder.tensors("state")
        random_looks = read_metadata(path).get("random_looks") == "True"
        data = dataclasses.replace(like.data, random=random_looks)
        return load_tree(path, dataclasses.replace(like, data=data))

    def act(self, state: CTMLEState, policy: Any, looks: Looks) -> Trajectory:
        """Run a policy on the simulated plant and look at it."""
        c = self.config
        key = self.stream(Stream.PLANT, self.agent.trajectories(state))
        return simulate(self.env, policy, looks, key, step=c.step, observation=c.observation)

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
