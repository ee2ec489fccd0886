"""What agents with a learned model share: gather data, believe, improve a policy in the belief, act, look again."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from ctmle.agents.base import Past, Standing
from ctmle.agents.phases import ModelBasedState, Phase, Stream, Work
from ctmle.agents.setbacks import another_try, pace, went_wrong
from ctmle.config.model_based import ModelBasedConfig
from ctmle.data.dataset import Dataset
from ctmle.data.finite import check_looks
from ctmle.data.trajectory import Trajectory
from ctmle.dynamics.descent import Descent
from ctmle.dynamics.loop import Chunk, Span
from ctmle.dynamics.model import fit_scales
from ctmle.envs.base import Spec
from ctmle.planning.improve import METRICS as IMPROVE_METRICS
from ctmle.planning.improve import ActorCritic, Improve, improve_updates
from ctmle.planning.policy import Feedback, Policy, random_signal, silent_signal
from ctmle.planning.rollout import World
from ctmle.planning.starts import Starts
from ctmle.schedules.base import Looks, Schedule

WAVES = 3

ROOM = 32
"""Episodes. Room for data comes in multiples of it, so that runs of 5 and of 15 episodes share their programs."""

Settings = TypeVar("Settings", bound=ModelBasedConfig)


@dataclass(frozen=True)
class ModelBasedAgent(ABC, Generic[Settings]):
    """A named algorithm says what it believes (`init_belief`, `world`) and by which phases it comes to believe it.

    Agents with the same settings are equal, so that what is compiled for one serves the others.
    """

    config: Settings
    episodes: int = ROOM
    """There is room for the data of so many. With more it grows, and compiles anew."""

    belief_metrics: ClassVar[tuple[str, ...]]
    """What the phases that fit the belief measure."""

    @abstractmethod
    def init_belief(self, spec: Spec, key: PRNGKeyArray) -> Any:
        """A record with an `ensemble`, before anything was seen."""

    @abstractmethod
    def believing(self, episode: int) -> tuple[Work, ...]:
        """The phases of an episode that fit the belief. The policy's own comes after them."""

    @abstractmethod
    def world(self, state: ModelBasedState) -> World:
        """The SDE that the policy is improved in."""

    @abstractmethod
    def beside(self, episode: int) -> dict[str, float]:
        """What to log that is known without measuring."""

    @eqx.filter_jit
    def init(self, spec: Spec, key: PRNGKeyArray) -> ModelBasedState:
        belief = self.init_belief(spec, jax.random.fold_in(key, Stream.BELIEF))
        actor_critic = self._improve().init(spec, jax.random.fold_in(key, Stream.ACTOR_CRITIC))
        return ModelBasedState(
            spec=spec,
            key=key,
            data=self._no_data(spec, feedback=actor_critic.feedback),
            belief=belief,
            actor_critic=actor_critic,
            phase=jnp.asarray(Phase.ACT, jnp.int32),
            step=jnp.asarray(0, jnp.int32),
            setbacks=jnp.asarray(0, jnp.int32),
            metrics={name: jnp.zeros(()) for name in (*self.belief_metrics, *IMPROVE_METRICS)},
        )

    def episode(self, state: ModelBasedState) -> int:
        """The number n of the episode that the agent works on; 0 while it still gathers its initial data."""
        return self._place(int(state.data.count))[0]

    def standing(self, state: ModelBasedState) -> Standing:
        episode, phase = self.episode(state), Phase(int(state.phase))
        totals = {work.phase: work.total for work in self._works(episode)}
        phases = [*totals, Phase.ACT]
        metrics = {name: float(value) for name, value in sorted(state.metrics.items())}
        return Standing(
            episode=episode,
            phase=phase.name.lower(),
            done=sum(totals[before] for before in phases[: phases.index(phase)]) + int(state.step),
            total=sum(totals.values()),
            trajectories=int(state.data.count),
            looks=int(state.data.looks),
            metrics=metrics | {"setbacks": float(state.setbacks)} | (self.beside(episode) if episode > 0 else {}),
        )

    def ready(self, state: ModelBasedState) -> bool:
        return int(state.phase) == Phase.ACT

    def advance(self, state: ModelBasedState, schedule: Schedule) -> ModelBasedState:
        """The next `chunk` updates of the current phase."""
        if self.ready(state):
            return state
        episode, setbacks = self.episode(state), int(state.setbacks)
        works = {work.phase: work for work in self._works(episode)}
        work = works[Phase(int(state.phase))]
        count = min(self.config.chunk, work.total - int(state.step))
        key = jax.random.fold_in(jax.random.fold_in(state.key, work.stream), episode)
        span = Span.of(state.step, count, another_try(key, setbacks), pace(setbacks))
        chunk = work.updates(state, schedule, span)
        if went_wrong(chunk, work.metrics, phase=work.phase.name.lower(), episode=episode, setbacks=setbacks):
            return eqx.tree_at(lambda s: s.setbacks, state, state.setbacks + 1)
        state = eqx.tree_at(
            lambda s: (work.part(s), s.metrics), state, (chunk.state, {**state.metrics, **chunk.metrics})
        )
        step = int(state.step) + count
        if step < work.total:
            return _at(state, work.phase, step)
        phases = [*works, Phase.ACT]
        return _at(state, phases[phases.index(work.phase) + 1], 0)

    def propose(self, state: ModelBasedState, schedule: Schedule) -> tuple[ModelBasedState, Policy, Looks]:
        """Believe, plan, decide when to look."""
        while not self.ready(state):
            state = self.advance(state, schedule)
        c, spec, number = self.config, state.spec, int(state.data.count)
        looks_key = jax.random.fold_in(jax.random.fold_in(state.key, Stream.LOOKS), number)
        looks = schedule.looks(looks_key, c.trajectory_seconds or spec.horizon)
        episode, place = self._place(number)
        if episode > 0 and place >= c.exploring_trajectories:
            return state, self.policy(state), looks
        explore_key = jax.random.fold_in(jax.random.fold_in(state.key, Stream.EXPLORE), number)
        strength, gain = (1.0, 0.0) if episode == 0 else (c.exploring_strength, 1.0)
        signal = random_signal(spec, explore_key, waves=WAVES, strength=strength)
        return state, Policy(state.actor_critic.feedback, signal, jnp.asarray(gain, jnp.float32)), looks

    def observe(self, state: ModelBasedState, trajectory: Trajectory) -> ModelBasedState:
        """Write down what was seen; a finished episode leads to the next fit."""
        check_looks(trajectory)
        before = self.episode(state)
        state = eqx.tree_at(lambda s: s.data, state, state.data.add(trajectory))
        if self.episode(state) == before:
            return _at(state, Phase.ACT, 0)
        if before == 0:
            ensemble = fit_scales(state.belief.ensemble, state.spec, state.data)
            state = eqx.tree_at(lambda s: s.belief.ensemble, state, ensemble)
        state = eqx.tree_at(lambda s: s.setbacks, state, jnp.asarray(0, jnp.int32))
        return _at(state, self._works(self.episode(state))[0].phase, 0)

    def policy(self, state: ModelBasedState) -> Policy:
        """The current policy, without exploration."""
        return Policy(state.actor_critic.feedback, silent_signal(state.spec, WAVES), jnp.ones(()))

    def history(self, state: ModelBasedState) -> list[Past]:
        """The trajectories of the policies themselves."""
        pasts = []
        for row in range(int(state.data.count)):
            episode, place = self._place(row)
            if episode > 0 and place >= self.config.exploring_trajectories:
                trajectory = state.data.trajectory(row)
                pasts.append(Past(episode, trajectory.policy, trajectory))
        return pasts

    def parts(self, state: ModelBasedState) -> dict[str, Any]:
        return {
            "policy": self.policy(state),
            "critic": state.actor_critic.critic,
            "model": state.belief.ensemble,
            "data": state.data,
        }

    def _place(self, trajectory: int) -> tuple[int, int]:
        """The episode that the trajectory of this number, from 0, belongs to, and its place in it."""
        extra = trajectory - self.config.initial_trajectories
        episode, place = divmod(extra, self._per_episode)
        return (0, trajectory) if extra < 0 else (1 + episode, place)

    @property
    def _per_episode(self) -> int:
        return self.config.exploring_trajectories + self.config.trajectories_per_episode

    def _no_data(self, spec: Spec, feedback: Feedback) -> Dataset:
        like = Trajectory(
            times=jnp.zeros(1),
            states=jnp.zeros((1, spec.observation.size)),
            controls=jnp.zeros((1, spec.control_size)),
            policy=Policy(feedback, silent_signal(spec, WAVES), jnp.zeros(())),
        )
        episodes = ROOM * math.ceil(self.episodes / ROOM)
        return Dataset.empty(like, self.config.initial_trajectories + episodes * self._per_episode)

    def _works(self, episode: int) -> tuple[Work, ...]:
        policy = Work(
            phase=Phase.POLICY,
            stream=Stream.IMPROVE,
            part=lambda s: s.actor_critic,
            updates=self._improve_policy,
            total=self.config.policy_updates,
            metrics=IMPROVE_METRICS,
        )
        return (*self.believing(episode), policy)

    def _descent(self, updates: int, rate: float) -> Descent:
        """Of a belief."""
        c = self.config
        return Descent(updates, rate, c.dynamics_final_rate, weight_decay=c.weight_decay)

    def _improve_policy(self, state: ModelBasedState, schedule: Schedule, span: Span) -> Chunk[ActorCritic]:
        c = self.config
        starts = Starts.from_data(state.spec, state.data, reset_share=c.reset_starts, box_share=c.box_starts)
        bootstrap = jnp.asarray(min(1.0, self.episode(state) / c.bootstrap_episodes))
        improve, world = self._improve(), self.world(state)
        return improve_updates(improve, state.spec, world, starts, bootstrap, state.actor_critic, span)

    def _improve(self) -> Improve:
        c = self.config
        return Improve(
            hidden=c.policy_hidden,
            horizon=c.policy_horizon,
            step=c.policy_step,
            discount_time=c.discount_time,
            particles=c.particles,
            actor_descent=Descent(c.policy_updates, c.policy_rate, c.policy_final_rate, clip=c.gradient_clip),
            critic_descent=Descent(c.policy_updates, c.critic_rate, clip=c.gradient_clip),
            critic_steps=c.critic_steps,
            critic_batch=c.critic_batch,
            target_every=c.target_every,
        )


def _at(state: ModelBasedState, phase: Phase, step: int) -> ModelBasedState:
    place = (jnp.asarray(phase, jnp.int32), jnp.asarray(step, jnp.int32))
    return eqx.tree_at(lambda s: (s.phase, s.step), state, place)
