"""SAC-TaCoS: soft actor-critic on the extended MDP (Treven et al., 2024)."""

from dataclasses import dataclass
from enum import IntEnum

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray

from ctmle.agents.sac_tacos.config import SacTacosConfig
from ctmle.agents.sac_tacos.mdp import ExtendedMdp
from ctmle.agents.sac_tacos.networks import Actor
from ctmle.agents.sac_tacos.policy import TacosPolicy
from ctmle.agents.sac_tacos.replay import Decisions, Replay
from ctmle.agents.sac_tacos.statistics import Statistics
from ctmle.agents.sac_tacos.update import METRICS, Learner, Update, sac_updates
from ctmle.data.holding import hold_path
from ctmle.data.trajectory import Trajectory
from ctmle.envs.base import Env, Spec
from ctmle.envs.observation import ObservationKind
from ctmle.schedules.base import DecidedLooks, Schedule


class Stream(IntEnum):
    """Purposes of randomness: each has its own key, so that no use of one shifts another."""

    LEARNER = 0
    ACT = 1
    UPDATE = 2


class SacTacosState(eqx.Module):
    """All that the agent knows, and where in its episode it stands.

    `gathered` are the statistics of all that was seen; the learner takes them over when it next learns. `fresh` decisions
    have been seen since it last did, and `pending` gradient steps are still to be done before the next trajectory.
    """

    spec: Spec
    key: PRNGKeyArray
    learner: Learner
    gathered: Statistics
    replay: Replay
    trajectories: Int[Array, ""]
    looks: Int[Array, ""]
    updates: Int[Array, ""]
    fresh: Int[Array, ""]
    pending: Int[Array, ""]
    metrics: dict[str, Float[Array, ""]]


@dataclass(frozen=True)
class SacTacos:
    """Decide what to do and for how long; remember what it gave; take gradient steps on what is remembered."""

    config: SacTacosConfig = SacTacosConfig()

    @eqx.filter_jit
    def init(self, spec: Spec, key: PRNGKeyArray) -> SacTacosState:
        mdp, zero = self.mdp(spec), jnp.zeros((), jnp.int32)
        return SacTacosState(
            spec=spec,
            key=key,
            learner=self._update(mdp).init(mdp.inputs, mdp.shortest, jax.random.fold_in(key, Stream.LEARNER)),
            gathered=Statistics.empty(mdp.inputs),
            replay=Replay.empty(self.config.replay_capacity, mdp.inputs, mdp.actions),
            trajectories=zero,
            looks=zero,
            updates=zero,
            fresh=zero,
            pending=zero,
            metrics={name: jnp.zeros(()) for name in METRICS},
        )

    def mdp(self, spec: Spec) -> ExtendedMdp:
        c = self.config
        return ExtendedMdp(
            spec=spec,
            tick=c.tick,
            min_hold=c.min_hold,
            max_hold=c.max_hold,
            gamma=c.gamma,
            switch_cost=c.switch_cost,
            reward_scale=c.reward_scale,
            bootstrap_at_horizon=c.bootstrap_at_horizon,
        )

    def trajectories(self, state: SacTacosState) -> int:
        return int(state.trajectories)

    def episode(self, state: SacTacosState) -> int:
        """The number n of the episode that the agent works on; 0 while it still gathers its initial data."""
        return int(self._episode(state.trajectories))

    def ready(self, state: SacTacosState) -> bool:
        return int(state.pending) == 0

    def advance(self, state: SacTacosState, schedule: Schedule | None = None) -> SacTacosState:
        """The next `chunk` gradient steps. When to look is the policy's to decide, so there is no use for a schedule."""
        count = min(self.config.chunk, int(state.pending))
        return self._learn(state, jnp.asarray(count, jnp.int32)) if count else state

    def propose(
        self, state: SacTacosState, schedule: Schedule | None = None
    ) -> tuple[SacTacosState, TacosPolicy, DecidedLooks]:
        """Learn from what was seen, then act on it, with the policy's own randomness to explore by."""
        while not self.ready(state):
            state = self.advance(state)
        return state, self._acting(state), DecidedLooks()

    def observe(self, state: SacTacosState, trajectory: Trajectory) -> SacTacosState:
        """Write down what was seen; a finished episode leads to the next gradient steps."""
        _check(trajectory, state.spec)
        return self._observe(state, padded(trajectory, self.mdp(state.spec).most_decisions), jnp.asarray(trajectory.looks - 1))

    @eqx.filter_jit
    def practise(
        self,
        state: SacTacosState,
        env: Env,
        keys: Key[Array, " trajectories"],
        *,
        step: float = 0.01,
        observation: ObservationKind = "angles",
    ) -> SacTacosState:
        """A trajectory for each key, learning before each, in one compiled loop: as propose and observe would do it."""
        arrays, static = eqx.partition(state, eqx.is_array)

        def trajectory(arrays: SacTacosState, key: PRNGKeyArray) -> tuple[SacTacosState, None]:
            state = self._learnt(eqx.combine(arrays, static), arrays.pending)
            path = hold_path(env, self._acting(state), key, step=step, observation=observation)
            state = self._absorb(state, *self.mdp(state.spec).of_path(path))
            return eqx.filter(state, eqx.is_array), None

        arrays, _ = jax.lax.scan(trajectory, arrays, keys)
        return eqx.combine(arrays, static)

    def policy(self, state: SacTacosState) -> TacosPolicy:
        """The current policy, without exploration."""
        no = jnp.asarray(False)
        return self._policy(state, state.key, exploring=no, drawing=no)

    def _acting(self, state: SacTacosState) -> TacosPolicy:
        key = jax.random.fold_in(jax.random.fold_in(state.key, Stream.ACT), state.trajectories)
        return self._policy(state, key, exploring=self._episode(state.trajectories) == 0, drawing=jnp.asarray(True))

    def _policy(
        self, state: SacTacosState, key: PRNGKeyArray, *, exploring: Bool[Array, ""], drawing: Bool[Array, ""]
    ) -> TacosPolicy:
        mdp, learner = self.mdp(state.spec), state.learner
        return TacosPolicy(
            mdp, learner.actor, learner.statistics, key, exploring, drawing, mdp.tick, mdp.discount_rate
        )

    def _episode(self, trajectories: Int[Array, ""]) -> Int[Array, ""]:
        extra = trajectories - self.config.initial_trajectories
        return jnp.where(extra < 0, 0, 1 + extra // self.config.trajectories_per_episode)

    @eqx.filter_jit
    def _learn(self, state: SacTacosState, count: Int[Array, ""]) -> SacTacosState:
        return self._learnt(state, count)

    def _learnt(self, state: SacTacosState, count: Int[Array, ""]) -> SacTacosState:
        learner = eqx.tree_at(lambda l: l.statistics, state.learner, state.gathered)
        key = jax.random.fold_in(state.key, Stream.UPDATE)
        learner, metrics = sac_updates(
            self._update(self.mdp(state.spec)), learner, state.replay, state.updates, count, key
        )
        metrics = {name: jnp.where(count > 0, metrics[name], state.metrics[name]) for name in METRICS}
        return eqx.tree_at(
            lambda s: (s.learner, s.updates, s.pending, s.metrics),
            state,
            (learner, state.updates + count, state.pending - count, metrics),
        )

    @eqx.filter_jit
    def _observe(self, state: SacTacosState, looks: Trajectory, count: Int[Array, ""]) -> SacTacosState:
        decisions = self.mdp(state.spec).of_looks(looks)
        return self._absorb(state, decisions, jnp.arange(looks.looks - 1) < count)

    def _absorb(self, state: SacTacosState, decisions: Decisions, real: Bool[Array, " rows"]) -> SacTacosState:
        count = jnp.sum(real).astype(jnp.int32)
        trajectories = state.trajectories + 1
        finished = self._episode(trajectories) > self._episode(state.trajectories)
        fresh = state.fresh + count
        due = jnp.round(self.config.updates_per_decision * fresh).astype(jnp.int32)
        return eqx.tree_at(
            lambda s: (s.gathered, s.replay, s.trajectories, s.looks, s.fresh, s.pending),
            state,
            (
                state.gathered.add(decisions.seen, real),
                state.replay.add(decisions, real),
                trajectories,
                state.looks + count + 1,
                jnp.where(finished, 0, fresh),
                state.pending + jnp.where(finished, due, 0),
            ),
        )

    def _update(self, mdp: ExtendedMdp) -> Update:
        c = self.config
        return Update(
            hidden=c.hidden,
            batch=c.batch,
            actor_rate=c.actor_rate,
            critic_rate=c.critic_rate,
            temperature_rate=c.temperature_rate,
            initial_temperature=c.initial_temperature,
            target_entropy=c.target_entropy * mdp.actions,
            target_rate=c.target_rate,
            pessimism=c.pessimism,
            clip=c.gradient_clip,
        )


def padded(trajectory: Trajectory, decisions: int) -> Trajectory:
    """With room for a multiple of `decisions`, so that the number of looks compiles nothing anew."""
    missing = -(trajectory.looks - 1) % decisions

    def pad(column: Array) -> Array:
        column = np.asarray(column)
        return jnp.asarray(np.pad(column, [(0, missing)] + [(0, 0)] * (column.ndim - 1), mode="edge"))

    rewards = None if trajectory.rewards is None else pad(trajectory.rewards)
    return Trajectory(*map(pad, (trajectory.times, trajectory.states, trajectory.controls)), rewards=rewards)


def _check(trajectory: Trajectory, spec: Spec) -> None:
    """Refuse, with what to mend, a trajectory that cannot have come from this plant."""
    times, size = np.asarray(trajectory.times), spec.observation.size
    if trajectory.looks < 2:
        raise ValueError("a trajectory needs at least two looks: one decision, and what came of it")
    if np.any(np.diff(times) <= 0):
        raise ValueError("the times of a trajectory must increase strictly")
    if trajectory.states.shape[-1] != size:
        raise ValueError(f"this trajectory has {trajectory.states.shape[-1]} observed coordinates, the plant has {size}")
    columns = [c for c in (times, trajectory.states, trajectory.controls, trajectory.rewards) if c is not None]
    if not all(np.all(np.isfinite(column)) for column in columns):
        raise ValueError("this trajectory has numbers that are not finite: look at its sensors")
    if trajectory.rewards is not None and trajectory.rewards.shape[0] != trajectory.looks - 1:
        raise ValueError(
            f"{trajectory.looks} looks have {trajectory.looks - 1} gaps between them,"
            f" but there are {trajectory.rewards.shape[0]} rewards: give one for each gap"
        )
