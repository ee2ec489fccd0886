"""One run: the outer loop of alg:imp-friendly, with tests of what was learned."""

import dataclasses
import math
import time
from collections import defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from ctmle.agents.base import Agent, Experience, Progress
from ctmle.agents.model_based import ModelBasedAgent
from ctmle.data.dataset import Dataset
from ctmle.data.starts import with_starts
from ctmle.data.trajectory import Trajectory
from ctmle.envs.base import Env, Spec
from ctmle.envs.check import check_env
from ctmle.lab.evaluate import (
    Score,
    check_rewards,
    evaluate,
    imagined_score,
    learned_diffusion,
    observed_diffusion,
    rewards_of,
)
from ctmle.lab.experiment import MOST_STEPS, Experiment
from ctmle.lab.storage.run_folder import Checkpoint
from ctmle.lab.storage.tensors import Layout, layout_of
from ctmle.lab.storage.trees import check_layout, fill
from ctmle.lab.systems import name_of, plant_of
from ctmle.options import flat
from ctmle.plants.simulated import SimulatedSDE
from ctmle.registry import ENVIRONMENTS
from ctmle.schedules.base import DecidedLooks, Looks, Schedule

Record = dict[str, Any]


AGENT, PLANT, TEST, IMAGINATION, OUTPUT = range(5)
"""Random streams of a run. Tests have their own, so that testing a policy never changes the training."""


@dataclasses.dataclass(frozen=True)
class Moment:
    """A point between two pieces of work: the state, the progress, and the record of an episode that just ended.

    A run can be resumed from any moment that is `resumable`; the one between acting and testing is not.
    """

    state: Any
    progress: Record
    record: Record | None = None
    resumable: bool = True


class Run:
    """The parts of an experiment, and the loop that runs them together."""

    def __init__(self, experiment: Experiment):
        """Raise ValueError if the environment is one of the user's own and something is wrong with it."""
        system, training = experiment.env, experiment.training
        if isinstance(system, Env) and ENVIRONMENTS.name_of(type(system)) is None:
            check_env(system)
        self.experiment = experiment
        self.agent, self.schedule, self.evaluation = experiment.agent, experiment.schedule, experiment.evaluation
        self.plant = plant_of(system, training.step, training.observation)
        self.spec = self.plant.spec
        self.key = jax.random.key(experiment.training.seed)

    @property
    def simulated(self) -> SimulatedSDE:
        """The plant of an SDE. Raises ValueError for one without equations."""
        if not isinstance(self.plant, SimulatedSDE):
            raise ValueError(f"{name_of(self.experiment.env)} is a plant without equations: this needs an SDE")
        return self.plant

    def stream(self, purpose: int, number: int = 0) -> PRNGKeyArray:
        return jax.random.fold_in(jax.random.fold_in(self.key, purpose), number)

    def init(self) -> Any:
        return self.agent.init(self.spec, self.stream(AGENT))

    def steps(self, state: Any) -> Iterator[Moment]:
        """Fit, plan, act, look; then test what was learned; and so on.

        Yields before every chunk of updates, before every test and after it.
        """
        agent, training = self.agent, self.experiment.training
        while (progress := agent.progress(state)).episode <= training.episodes:
            seconds: dict[str, float] = defaultdict(float)
            if progress.episode > 0 and training.test_every > 1 and agent.practises:
                yield Moment(state, _flat(progress))
                state, progress, known = self._practise(state, progress, seconds)
            else:
                state, progress, known = yield from self._episode(state, progress, seconds)
            episode = progress.episode
            if episode > 0 and (episode % training.test_every == 0 or episode == training.episodes):
                progress = dataclasses.replace(progress, stage="test", looks=agent.progress(state).looks)
                yield Moment(state, _flat(progress), resumable=False)
                record = self._record(state, progress, known) | seconds
                yield Moment(state, _flat(progress), record)
                if training.stop_at_success and record["success"]:
                    return

    def _episode(
        self, state: Any, progress: Progress, seconds: dict[str, float]
    ) -> Generator[Moment, None, tuple[Any, Progress, Experience]]:
        """Run one episode, with a moment before every chunk of updates.

        Returns the agent's progress when it acted, and what it had learned from.
        """
        agent = self.agent
        while not agent.ready(state):
            yield Moment(state, _flat(progress))
            started = time.perf_counter()
            state = jax.block_until_ready(agent.advance(state, self.schedule))
            seconds[f"{progress.stage}_seconds"] += time.perf_counter() - started
            progress = agent.progress(state)
        known = agent.experience(state)
        while agent.progress(state).episode == progress.episode:
            state, policy, looks = agent.propose(state, self.schedule)
            state = agent.observe(state, self.act(state, policy, looks))
        return state, progress, known

    def _practise(self, state: Any, progress: Progress, seconds: dict[str, float]) -> tuple[Any, Progress, Experience]:
        """Run every episode up to the next test in one compiled loop."""
        agent, training, started = self.agent, self.experiment.training, time.perf_counter()
        last = min(training.episodes, training.test_every * math.ceil(progress.episode / training.test_every))
        count = (last - progress.episode + 1) * agent.trajectories_per_episode
        numbers = range(progress.trajectories, progress.trajectories + count)
        keys = jnp.stack([self.stream(PLANT, number) for number in numbers])
        state = agent.practise(state, self.simulated, keys)
        progress = dataclasses.replace(agent.progress(jax.block_until_ready(state)), episode=last)
        seconds["updates_seconds"] += time.perf_counter() - started
        # All data but that of the last episode, whose trajectories are taken to be as its last one.
        every, newest = agent.experience(state), agent.history(state)[-1].trajectory
        own = agent.trajectories_per_episode
        lasted = float(newest.times[-1] - newest.times[0])
        return state, progress, Experience(every.seconds - own * lasted, every.looks - own * newest.looks)

    def episodes(self, state: Any) -> Iterator[tuple[Any, Record]]:
        """Yield the state and the record at the end of every tested episode."""
        for moment in self.steps(state):
            if moment.record is not None:
                yield moment.state, moment.record

    def score(self, policy: Any, episode: int) -> Score:
        """Test an episode's policy; the same policy and episode give the same score to the last digit."""
        return evaluate(self.plant, policy, self.stream(TEST, episode), self.evaluation)

    def output(self, state: Any, which: str) -> tuple[Any, int]:
        """Return the policy that a run gives, with its episode: `final`, `best` by its own episode, or `random`."""
        pasts = self.agent.history(state)
        if which == "best":
            past = max(pasts, key=lambda past: self.episode_score(past.trajectory))
        elif which == "random":
            sampled = [past for past in pasts if past.sampled]
            past = sampled[int(jax.random.randint(self.stream(OUTPUT), (), 0, len(sampled)))]
        else:
            past = pasts[-1]
        return past.policy, past.episode

    @property
    def saved(self) -> "Saved":
        return Saved(self.agent, self.schedule, self.spec, self.experiment.training.episodes)

    def fits(self, path: Path, layout: Layout) -> None:
        """Raise ValueError if the arrays that a checkpoint declares are not those that the settings imply."""
        self.saved.fits(path, layout)

    def restore(self, checkpoint: Checkpoint) -> Any:
        """Return the agent's state from a checkpoint: it continues as if it had never stopped."""
        return self.saved.restore(checkpoint)

    def act(self, state: Any, policy: Any, looks: Looks | DecidedLooks) -> Trajectory:
        """Run a policy on the plant and look at it."""
        progress = self.agent.progress(state)
        key, what = self.stream(PLANT, progress.trajectories), f"trajectory {progress.trajectories}"
        what = f"{what} (episode {progress.episode})"
        trajectory = self.plant.run(policy, looks, key, what)
        if self.spec.state_reward is not None:
            self._rewards(trajectory, what)
        return trajectory

    def _record(self, state: Any, progress: Progress, known: Experience) -> Record:
        started, episode = time.perf_counter(), progress.episode
        score = self.score(self.agent.policy(state), episode)
        last = self.agent.history(state)[-1].trajectory
        times = np.asarray(last.times)
        return {
            "episode": episode,
            "score": score.mean,
            **({"return": score.mean} if score.rule == "return" else {}),
            "score_se": score.standard_error,
            "success": score.success,
            "success_share": score.success_share,
            "lowest_reward": score.lowest_reward,
            "episode_score": self.episode_score(last),
            "looks": progress.looks,
            "experience_seconds": known.seconds,
            "experience_looks": known.looks,
            "mean_gap": float(times[-1] - times[0]) / (last.looks - 1),
            **progress.metrics,
            **self._beliefs(state, episode),
            "test_seconds": time.perf_counter() - started,
        }

    def _beliefs(self, state: Any, episode: int) -> Record:
        """Compare what the agent believes with the truth: the score it expects, and the diffusion it learned."""
        agent = self.agent
        if not isinstance(agent, ModelBasedAgent):
            return {}
        world, last = agent.world(state), agent.history(state)[-1].trajectory
        imagined = imagined_score(
            world,
            with_starts(self.spec, state.data),
            agent.policy(state).feedback,
            self.stream(IMAGINATION, episode),
            self.evaluation,
            step=flat(agent.improver).get("policy_step", 0.1),
        )
        if not world.sde.noisy:
            return {"imagined_score": imagined}
        y, u = last.states, last.controls
        learned = np.asarray(learned_diffusion(world, y, u), float).tolist()
        found = {"imagined_score": imagined, "diffusion_learned": learned}
        if not isinstance(self.plant, SimulatedSDE):
            return found
        true = np.asarray(observed_diffusion(self.plant.env, self.spec, y, u), float)
        return {**found, "diffusion_true": true.tolist()}

    def episode_score(self, trajectory: Trajectory) -> float:
        """Average the reward after the warm-up at the looks of a training trajectory: costs no test trajectories.

        A trajectory that ends before the warm-up is scored over all of its looks. Under the rule return it is the sum
        of what was paid.
        """
        if self.evaluation.rule == "return":
            return float(np.sum(np.asarray(trajectory.rewards, np.float64)))
        rewards = self._rewards(trajectory, "a trajectory of an episode")
        counted = np.asarray(trajectory.times) >= self.evaluation.warm_up
        return float(rewards[counted if counted.any() else slice(None)].mean())

    def _rewards(self, trajectory: Trajectory, what: str) -> np.ndarray:
        """Compute the reward at every look, padded to a power of two: few numbers of looks are compiled for."""
        looks = trajectory.looks
        padded = np.minimum(np.arange(1 << (looks - 1).bit_length()), looks - 1)
        states, controls = (np.asarray(column)[padded] for column in (trajectory.states, trajectory.controls))
        rewards = np.asarray(rewards_of(self.spec, jax.device_put(states), jax.device_put(controls)), float)[:looks]
        check_rewards(self.plant, np.asarray(trajectory.states, float), rewards, f"in {what}")
        return rewards


@dataclasses.dataclass(frozen=True)
class Saved:
    """States of an agent in files: the arrays that settings imply, and a state from such arrays."""

    agent: Agent
    schedule: Schedule
    spec: Spec
    episodes: int
    """Episodes of the run after the initial data."""

    def fits(self, path: Path, layout: Layout) -> None:
        """Raise ValueError, which names `path`, if arrays are not those of a state."""
        check_layout(path, layout, self._like(path, layout))

    def restore(self, checkpoint: Checkpoint) -> Any:
        """Return the agent's state from a checkpoint. Raises ValueError for counters that no state has."""
        like = self._like(checkpoint.path, layout_of(checkpoint.arrays))
        state = fill(checkpoint.path, checkpoint.arrays, like)
        problem = self.agent.flaw(state)
        if problem is not None:
            raise ValueError(f"{checkpoint.path} does not fit this run: {problem}")
        return state

    def _like(self, path: Path, layout: Layout) -> Any:
        """Return the shapes of a state. Datasets grow, so their size is the file's, within what the run can gather."""
        most = self._most_looks()

        def as_saved(place: Any, node: Any) -> Any:
            if not isinstance(node, Dataset):
                return node
            name, sizes = jax.tree_util.keystr(place), {key: shape[:1] for key, (_, shape) in layout.items()}
            if not (sizes.get(f"{name}.times") and sizes.get(f"{name}.lengths")):
                return node
            (looks,), (rows,) = sizes[f"{name}.times"], sizes[f"{name}.lengths"]
            pieces = next(iter(sizes.get(f"{name}.drives.recorded.times", ())), None)
            if looks > most or rows > most or (pieces or 0) > max(most, MOST_STEPS):
                raise ValueError(f"{path} does not fit this run: '{name}' is larger than the run can gather")
            closed = any(key.startswith(f"{name}.drives.policies") for key in sizes)
            random = flat(self.schedule).get("random_looks", False)
            return node.sized(looks, rows, pieces, closed=closed, random=random)

        def like() -> Any:
            fresh = self.agent.init(self.spec, jax.random.key(0))
            return jax.tree_util.tree_map_with_path(as_saved, fresh, is_leaf=lambda node: isinstance(node, Dataset))

        return eqx.filter_eval_shape(like)

    def _most_looks(self) -> int:
        """Bound the looks that the run can gather, with room to spare: full arrays double, and gaps may be random."""
        if not isinstance(self.agent, ModelBasedAgent):
            return 0
        looks = self.schedule.looks(jax.random.key(0), self.agent.longest(self.spec))
        if isinstance(looks, DecidedLooks):
            return MOST_STEPS
        return 8 * (looks.count + 8) * self.agent.room(self.episodes)


def _flat(progress: Progress) -> Record:
    """Return progress as one flat record, which is what watchers see."""
    where = {name: value for name, value in vars(progress).items() if name != "metrics"}
    return {**where, **progress.metrics}
