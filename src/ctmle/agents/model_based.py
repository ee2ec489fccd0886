"""Agents with a learned model: gather data, fit, improve a policy in the model, act, look again."""

import zlib
from dataclasses import dataclass, replace
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ctmle.agents.base import Agent, Experience, Past, Progress
from ctmle.agents.kept import EMPTY, Kept
from ctmle.data.dataset import Dataset
from ctmle.data.starts import with_starts
from ctmle.data.trajectory import Trajectory, checked
from ctmle.envs.base import Spec
from ctmle.models.basis_learner import BasisLearner
from ctmle.models.world import Context, KnownReward, Learner, NeverEnds, Reward, Survival, World
from ctmle.planning.actor_critic import ActorCritic, Improver
from ctmle.planning.exploration import Exploration, SmoothSignals, plain
from ctmle.planning.policy import Policy
from ctmle.schedules.base import Advice, DecidedLooks, Looks, Schedule
from ctmle.settings import AtLeastOne, Count, Positive, option
from ctmle.training.failures import MOST_RETRIES
from ctmle.training.updates import Span, Stage, Trainer, failed, run_updates

TRAINED = ("learner", "reward", "survival", "improver", "exploration")
"""Parts with a state, in the order in which an episode trains them."""

INIT_STREAMS = {"learner": 0, "improver": 1}
LOOKS, EXPLORE, ASK, KEEP = 2, 3, 7, 8
"""Random streams. Stages have their own; those of parts without an entry follow from their names."""

READY = -1
"""The stage of an agent that is ready to act."""

POLICIES_KEPT = 32
"""Policies kept of those that drove a plant with recorded controls: a uniform sample."""

ROOM = 32
"""Episodes that there is room for at first. With more data the dataset grows, and programs compile anew."""


class AgentState(eqx.Module):
    """Everything the agent knows, and how far it is in its episode."""

    spec: Spec
    key: PRNGKeyArray
    data: Dataset
    trained: dict[str, Any]
    """State of each part, by its name."""
    driven: Int[Array, ""]
    """Trajectories that the agent drove."""
    known: Int[Array, ""]
    """Trajectories that it had when it last learned."""
    stage: Int[Array, ""]
    step: Int[Array, ""]
    retries: Int[Array, ""]
    """Failures in this episode."""
    metrics: dict[str, Float[Array, ""]]
    kept: Kept | None = None
    """Arrays of the policies that drove, where controls are held: the data has those of closed loops itself."""


@dataclass(frozen=True)
class ModelBasedAgent(Agent):
    """A learner, an improver and an exploration, composed. Named algorithms differ only in these parts."""

    learner: Learner = option(BasisLearner(), "model")
    """What learns drift and diffusion: a basis with a posterior; an ensemble of networks; an ensemble of ODEs."""
    improver: Improver = ActorCritic()
    exploration: Exploration = SmoothSignals()
    reward: Reward = KnownReward()
    """What policies are improved for: the reward that the system states; one that is learned from what it paid."""
    survival: Survival = NeverEnds()
    """How episodes end before their time: never; at a rate that the system states; at one that is learned."""
    trajectories_per_episode: Count = 1
    """[N_inc] Trajectories of the policy added to the data after each episode."""
    trajectory_seconds: Positive | None = None
    """[H] Length of each training trajectory; none: the environment's horizon."""
    first_seconds: Positive | None = None
    """Length of each initial trajectory; none: as long as the others."""
    growth: AtLeastOne = 1.0
    """Factor by which trajectories become longer from one episode to the next, up to the environment's horizon."""
    switching: Literal["every-episode", "data-doubled"] = "every-episode"
    """When to learn anew: after every episode, or once there are twice as many looks as the last time."""
    chunk: Count = 50
    """Updates per compiled call: how often progress is shown."""

    def check(self) -> None:
        members, particles = getattr(self.learner, "members", 1), getattr(self.improver, "particles", None)
        if particles is not None and particles < members:
            raise ValueError(f"particles {particles} is fewer than one for each of the {members} ensemble members")

    def fits(self, spec: Spec, schedule: Schedule) -> None:
        self.reward.fits(spec)
        self.survival.fits(spec)
        for seconds in (self.seconds(spec, 0), self.seconds(spec), self.longest(spec)):
            schedule.fits(seconds)

    def init(self, spec: Spec, key: PRNGKeyArray) -> AgentState:
        trained = {name: _init(self.part(name), spec, jax.random.fold_in(key, _stream(name))) for name in TRAINED}
        zero = jnp.asarray(0, jnp.int32)
        names = [metric for name in TRAINED for metric in self.part(name).metrics]
        trained["improver"] = self.improver.joined(trained["improver"], self._world(trained))
        policy = plain(spec, self.improver.feedback(trained["improver"]))
        return AgentState(
            spec=spec,
            key=key,
            data=_no_data(spec, policy, self.room()),
            trained=trained,
            driven=zero,
            known=zero,
            stage=jnp.asarray(READY, jnp.int32),
            step=zero,
            retries=zero,
            metrics={name: jnp.zeros(()) for name in names},
            kept=None if spec.hold is None else Kept.empty(POLICIES_KEPT, eqx.filter(policy, eqx.is_array)),
        )

    def ready(self, state: AgentState) -> bool:
        return int(state.stage) == READY

    def advance(self, state: AgentState, schedule: Schedule) -> AgentState:
        """Run the next `chunk` updates of the current stage."""
        if self.ready(state):
            return state
        episode, retries, index = self.episode(state), int(state.retries), int(state.stage)
        stages = self._stages(episode)
        name, stage = stages[index]
        before = state
        if int(state.step) == 0:
            state = self._begin(state, schedule, episode, stages, index)
        count = min(self.chunk, stage.updates - int(state.step))
        key = jax.random.fold_in(jax.random.fold_in(state.key, stage.stream), episode)
        span = Span.of(state.step, count, key, retries)
        context = self._context(state, schedule, episode)
        outcome = run_updates(self.part(name), stage.name, context, state.trained[name], span)
        if failed(outcome, self.part(name), stage.name, episode, retries):
            return eqx.tree_at(lambda s: s.retries, before, before.retries + 1)
        metrics = {**state.metrics, **outcome.metrics}
        state = eqx.tree_at(lambda s: (s.trained[name], s.metrics), state, (outcome.state, metrics))
        step, part = int(state.step) + count, self.part(name)
        if step < stage.updates:
            return _at(state, index, step)
        finished = part.finish(state.trained[name], self._context(state, schedule, episode))
        state = eqx.tree_at(lambda s: s.trained[name], state, finished)
        rest = range(index + 1, len(stages))
        following = next((i for i in rest if not self._skipped(state, *stages[i])), READY)
        if following == READY:
            state = eqx.tree_at(lambda s: s.known, state, state.data.count)
        return _at(state, following, 0)

    def propose(self, state: AgentState, schedule: Schedule) -> tuple[AgentState, Policy, Looks | DecidedLooks]:
        """Fit, plan, decide when to look."""
        while not self.ready(state):
            state = self.advance(state, schedule)
        spec, number = state.spec, int(state.driven)
        episode = self._place(number)[0]
        looks_key = jax.random.fold_in(jax.random.fold_in(state.key, LOOKS), number)
        looks = schedule.looks(looks_key, self.seconds(spec, episode), episode, self.advice(state))
        if self._own(number):
            ask_key = jax.random.fold_in(jax.random.fold_in(state.key, ASK), number)
            own = (self.policy(state), self.world(state), spec, self.seconds(spec, episode), ask_key)
            return state, self.exploration.acting(*own), looks
        explore_key = jax.random.fold_in(jax.random.fold_in(state.key, EXPLORE), number)
        feedback = self.improver.feedback(state.trained["improver"])
        explorer = state.trained["exploration"]
        policy = self.exploration.controller(explorer, spec, feedback, first=episode == 0, key=explore_key)
        return state, policy, looks

    def observe(self, state: AgentState, trajectory: Trajectory) -> AgentState:
        """Add a trajectory to the data; after the last one of an episode, the next fit is due.

        Raises ValueError for what cannot be learned from (`data.checked` has the list).
        """
        before = self.episode(state)
        trajectory = checked(trajectory, state.spec, self.seconds(state.spec, before))
        kept, number = state.kept, int(state.driven)
        if kept is not None and self._own(number):
            key = jax.random.fold_in(jax.random.fold_in(state.key, KEEP), number)
            kept = kept.add(jnp.asarray(self._own_before(number)), eqx.filter(self.policy(state), eqx.is_array), key)
        state = replace(state, data=state.data.add(trajectory), driven=state.driven + 1, kept=kept)
        if self.episode(state) == before or not self._due(state):
            return _at(state, READY, 0)
        return _at(eqx.tree_at(lambda s: s.retries, state, jnp.asarray(0, jnp.int32)), 0, 0)

    def _due(self, state: AgentState) -> bool:
        """Tell whether there is enough new data to learn anew."""
        return self.switching == "every-episode" or int(state.data.looks) >= 2 * self.experience(state).looks

    def experience(self, state: AgentState) -> Experience:
        """Return the data that the present policy was trained on."""
        known, lengths = int(state.known), np.asarray(state.data.lengths, int)
        ends = np.cumsum(lengths)[:known]
        times = np.asarray(state.data.times, float)
        seconds = float(np.sum(times[ends - 1] - times[ends - lengths[:known]]))
        return Experience(seconds, int(lengths[:known].sum()))

    def progress(self, state: AgentState) -> Progress:
        episode, index = self.episode(state), int(state.stage)
        stages = [stage for _, stage in self._stages(episode)]
        done = stages if index == READY else stages[:index]
        metrics = {name: float(value) for name, value in sorted(state.metrics.items())}
        constants = self.learner.constants(episode) if episode > 0 else {}
        return Progress(
            episode=episode,
            stage="act" if index == READY else stages[index].name,
            done=sum(stage.updates for stage in done) + int(state.step),
            total=sum(stage.updates for stage in stages),
            trajectories=int(state.driven),
            looks=int(state.data.looks),
            metrics=metrics | {"setbacks": float(state.retries)} | constants,
        )

    def policy(self, state: AgentState) -> Policy:
        return plain(state.spec, self.improver.feedback(state.trained["improver"]))

    def world(self, state: AgentState) -> World:
        """Return the world that the policy is improved in."""
        return self._world(state.trained)

    def _world(self, trained: dict[str, Any]) -> World:
        learner, hazard = trained["learner"], self.survival.hazard(trained["survival"])
        reward = self.reward.reward(trained["reward"])
        return World(
            self.learner.sde(learner),
            reward,
            hazard,
            self.learner.plausible(learner),
            self.learner.optimist(learner),
            self.reward.unit(trained["reward"]),
        )

    def advice(self, state: AgentState) -> Advice:
        """Return what a schedule may ask before it decides the next looks."""
        return Advice()

    def history(self, state: AgentState) -> list[Past]:
        own = [row for row in range(int(state.driven)) if self._own(row)]
        if state.kept is None:
            seen = [state.data.trajectory(row) for row in own]
            return [Past(self._place(row)[0], each.policy, each) for row, each in zip(own, seen, strict=True)]
        pasts = []
        for place in state.kept.filled:
            row = own[int(state.kept.numbers[place])]
            policy = eqx.combine(state.kept.row(place), self.policy(state))
            past = (self._place(row)[0], policy, state.data.trajectory(row))
            pasts.append(Past(*past, sampled=place < POLICIES_KEPT))
        return pasts

    def parts(self, state: AgentState) -> dict[str, Any]:
        critic = self.improver.values(state.trained["improver"]).critic
        sde = self.learner.sde(state.trained["learner"])
        return {"policy": self.policy(state), "critic": critic, "model": sde, "data": state.data}

    def flaw(self, state: AgentState) -> str | None:
        data, count, driven = state.data, int(state.data.count), int(state.driven)
        lengths, stages = np.asarray(data.lengths, np.int64), self._stages(self.episode(state))
        updates = stages[int(state.stage)][1].updates if 0 <= int(state.stage) < len(stages) else 1
        flaws = {
            "the dataset has other trajectories than it counts": count != driven
            or not 0 <= count <= data.capacity
            or bool(np.any(lengths[:count] < 1) or np.any(lengths[count:] != 0)),
            "the dataset counts more looks than it has": int(lengths.sum()) > len(data.times),
            "its stage or update is none of this agent's": not READY <= int(state.stage) < len(stages)
            or not 0 <= int(state.step) < updates,
            "it learned from more trajectories than it has": not 0 <= int(state.known) <= count,
            "it counts impossible retries": not 0 <= int(state.retries) <= MOST_RETRIES,
            "recorded controls are not where it says": data.drives.flawed,
            "it kept policies that did not drive": state.kept is not None
            and bool(np.any((state.kept.numbers < EMPTY) | (state.kept.numbers >= max(driven, 1)))),
        }
        return next((flaw for flaw, found in flaws.items() if found), None)

    def room(self, episodes: int = ROOM) -> int:
        """Return the trajectories of the initial data and so many episodes; there is room for `ROOM` at first."""
        return self.exploration.initial + max(episodes, ROOM) * self._per_episode

    def part(self, name: str) -> Any:
        """Return one of the parts that are trained, by its name."""
        return getattr(self, name)

    def episode(self, state: AgentState) -> int:
        """Return the number n of the episode that the agent works on; 0 while it still gathers its initial data."""
        return self._place(int(state.driven))[0]

    def _place(self, trajectory: int) -> tuple[int, int]:
        """Return the episode that the trajectory of this number, from 0, belongs to, and its place in it."""
        extra = trajectory - self.exploration.initial
        episode, place = divmod(extra, self._per_episode)
        return (0, trajectory) if extra < 0 else (1 + episode, place)

    def _own(self, trajectory: int) -> bool:
        """Tell whether the trajectory of this number was driven to do well, and not to explore."""
        episode, place = self._place(trajectory)
        return episode > 0 and place >= self.exploration.per_episode

    def _own_before(self, trajectory: int) -> int:
        """Count the trajectories before this one that were driven to do well."""
        episode, place = self._place(trajectory)
        return (episode - 1) * self.trajectories_per_episode + place - self.exploration.per_episode

    @property
    def _per_episode(self) -> int:
        return self.exploration.per_episode + self.trajectories_per_episode

    def seconds(self, spec: Spec, episode: int = 1) -> float:
        """Return the length of the training trajectories of an episode; the initial ones are those of episode 0."""
        own = self.trajectory_seconds or spec.horizon
        if episode == 0:
            return self.first_seconds or own
        return own if self.growth == 1 else max(own, min(own * self.growth ** (episode - 1), spec.horizon))

    def longest(self, spec: Spec) -> float:
        """Return the length of the longest training trajectory that may come."""
        own = self.seconds(spec)
        return max(self.seconds(spec, 0), own, spec.horizon if self.growth > 1 else own)

    def _stages(self, episode: int) -> list[tuple[str, Stage]]:
        """List the stages of an episode, each with the part that it trains."""
        return [(name, stage) for name in TRAINED for stage in self.part(name).stages(episode)]

    def _skipped(self, state: AgentState, name: str, stage: Stage) -> bool:
        return stage.optional and self.part(name).has_enough(state.trained[name])

    def _begin(
        self, state: AgentState, schedule: Schedule, episode: int, stages: list[tuple[str, Stage]], index: int
    ) -> AgentState:
        """Let the part of a stage begin its episode if this is its first stage, and parts without stages before it."""
        name, before = stages[index][0], [TRAINED.index(name) for name, _ in stages[:index]]
        for part in TRAINED[max(before, default=-1) + 1 : TRAINED.index(name) + 1]:
            begun = self.part(part).begin(state.trained[part], self._context(state, schedule, episode), episode)
            if begun is not state.trained[part]:
                state = eqx.tree_at(lambda s, part=part: s.trained[part], state, begun)
        return state

    def _context(self, state: AgentState, schedule: Schedule, episode: int) -> Context:
        return Context(
            spec=with_starts(state.spec, state.data),
            data=state.data,
            world=self.world(state),
            values=self.improver.values(state.trained["improver"]),
            episode=jnp.asarray(episode, jnp.int32),
            longest_gap=schedule.longest_gap(self.longest(state.spec)),
        )


def _stream(name: str) -> int:
    return INIT_STREAMS.get(name, zlib.crc32(name.encode()) & 0x7FFFFFFF)


def _init(trainer: Trainer, spec: Spec, key: PRNGKeyArray) -> Any:
    """Initialise a part: compiled if it is trained, else directly, since it may hold what jit cannot hash."""
    return _compiled_init(trainer, spec, key) if trainer.stages(1) else trainer.init(spec, key)


@eqx.filter_jit
def _compiled_init(trainer: Trainer, spec: Spec, key: PRNGKeyArray) -> Any:
    return trainer.init(spec, key)


@eqx.filter_jit
def _no_data(spec: Spec, policy: Policy, rows: int) -> Dataset:
    like = Trajectory(
        times=jnp.zeros(1),
        states=jnp.zeros((1, spec.observation.size)),
        controls=jnp.zeros((1, spec.control_size)),
        drive=policy,
    )
    return Dataset.empty(like, rows)


def _at(state: AgentState, stage: int, step: int) -> AgentState:
    place = (jnp.asarray(stage, jnp.int32), jnp.asarray(step, jnp.int32))
    return eqx.tree_at(lambda s: (s.stage, s.step), state, place)
