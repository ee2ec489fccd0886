"""SAC-TaCoS: soft actor-critic on the extended MDP (Treven et al., 2024)."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray

from ctmle.agents.base import Past, Standing
from ctmle.agents.sac_tacos.history import History
from ctmle.agents.sac_tacos.looks import check_decisions, padded
from ctmle.agents.sac_tacos.mdp import ExtendedMdp
from ctmle.agents.sac_tacos.policy import TacosPolicy
from ctmle.agents.sac_tacos.replay import Replay
from ctmle.agents.sac_tacos.state import SacTacosState, Stream
from ctmle.agents.sac_tacos.statistics import Statistics
from ctmle.agents.sac_tacos.update import METRICS, Learner, Update, sac_updates
from ctmle.agents.setbacks import another_try, pace, went_wrong
from ctmle.config import SacTacosConfig
from ctmle.data.holding import hold_path
from ctmle.data.trajectory import Trajectory, looks_of
from ctmle.dynamics.loop import NO_CULPRIT, Chunk, Span
from ctmle.envs.base import Env, Spec
from ctmle.envs.observation import ObservationKind
from ctmle.schedules.base import DecidedLooks, Schedule


@dataclass(frozen=True)
class SacTacos:
    """Decide what to do and for how long; remember what it gave; take gradient steps on what is remembered."""

    config: SacTacosConfig = SacTacosConfig()

    @eqx.filter_jit
    def init(self, spec: Spec, key: PRNGKeyArray) -> SacTacosState:
        c, mdp, zero = self.config, ExtendedMdp.of(self.config, spec), jnp.zeros((), jnp.int32)
        learner = Update.of(c, mdp.actions).init(mdp.inputs, mdp.shortest, jax.random.fold_in(key, Stream.LEARNER))
        kept = eqx.filter((learner.actor, learner.statistics), eqx.is_array)
        sizes = (mdp.most_decisions + 1, spec.observation.size, spec.control_size)
        return SacTacosState(
            spec=spec,
            key=key,
            learner=learner,
            gathered=Statistics.empty(mdp.inputs),
            replay=Replay.empty(c.replay_capacity, mdp.inputs, mdp.actions),
            history=History.empty(c.policies_kept, *sizes, kept),
            trajectories=zero,
            looks=zero,
            updates=zero,
            fresh=zero,
            pending=zero,
            due=zero,
            setbacks=zero,
            metrics={name: jnp.zeros(()) for name in METRICS},
        )

    def standing(self, state: SacTacosState) -> Standing:
        metrics = {name: float(value) for name, value in sorted(state.metrics.items())}
        return Standing(
            episode=self.episode(state),
            phase="act" if self.ready(state) else "updates",
            done=int(state.due) - int(state.pending),
            total=int(state.due),
            trajectories=int(state.trajectories),
            looks=int(state.looks),
            metrics=metrics | {"updates": int(state.updates), "setbacks": float(state.setbacks)},
        )

    def episode(self, state: SacTacosState) -> int:
        """The number n of the episode that the agent works on; 0 while it still gathers its initial data."""
        return int(self._episode(state.trajectories))

    def ready(self, state: SacTacosState) -> bool:
        return int(state.pending) == 0

    def advance(self, state: SacTacosState, schedule: Schedule | None = None) -> SacTacosState:
        """The next `chunk` gradient steps. When to look is the policy's to decide, so a schedule has no say."""
        count = jnp.minimum(self.config.chunk, state.pending)
        chunk = self._learn(state, count, *self._try(state))
        if self._went_wrong(state, chunk):
            return eqx.tree_at(lambda s: s.setbacks, state, state.setbacks + 1)
        return chunk.state

    def propose(
        self, state: SacTacosState, schedule: Schedule | None = None
    ) -> tuple[SacTacosState, TacosPolicy, DecidedLooks]:
        """Learn from what was seen, then act on it, with the policy's own randomness to explore by."""
        while not self.ready(state):
            state = self.advance(state)
        return state, self._acting(state), DecidedLooks()

    def observe(self, state: SacTacosState, trajectory: Trajectory) -> SacTacosState:
        """Write down what was seen; a finished episode leads to the next gradient steps."""
        check_decisions(trajectory, state.spec)
        looks = padded(trajectory, ExtendedMdp.of(self.config, state.spec).most_decisions)
        return self._observe(state, looks, jnp.asarray(trajectory.looks, jnp.int32))

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
        while True:
            chunk = self._practise(state, env, keys, step, observation, *self._try(state))
            if not self._went_wrong(state, chunk):
                return chunk.state
            state = eqx.tree_at(lambda s: s.setbacks, state, state.setbacks + 1)

    def policy(self, state: SacTacosState) -> TacosPolicy:
        """The current policy, without exploration."""
        return self._policy(state, state.learner.actor, state.learner.statistics)

    def history(self, state: SacTacosState) -> list[Past]:
        """The newest `policies_kept` trajectories."""
        count, pasts = int(state.trajectories), []
        for number in range(max(self.config.initial_trajectories, count - self.config.policies_kept), count):
            trajectory, kept = state.history.trajectory(number)
            _, static = eqx.partition((state.learner.actor, state.learner.statistics), eqx.is_array)
            policy = self._policy(state, *eqx.combine(kept, static))
            pasts.append(Past(int(self._episode(jnp.asarray(number))), policy, trajectory))
        return pasts

    def parts(self, state: SacTacosState) -> dict[str, Any]:
        return {"policy": self.policy(state), "critic": state.learner.critics, "data": state.replay}

    def _acting(self, state: SacTacosState) -> TacosPolicy:
        key = jax.random.fold_in(jax.random.fold_in(state.key, Stream.ACT), state.trajectories)
        policy = self._policy(state, state.learner.actor, state.learner.statistics)
        random = (key, self._episode(state.trajectories) == 0, jnp.asarray(True))
        return eqx.tree_at(lambda p: (p.key, p.exploring, p.drawing), policy, random)

    def _policy(self, state: SacTacosState, actor: Any, statistics: Statistics) -> TacosPolicy:
        mdp, no = ExtendedMdp.of(self.config, state.spec), jnp.asarray(False)
        return TacosPolicy(
            mdp=mdp,
            actor=actor,
            statistics=statistics,
            key=state.key,
            exploring=no,
            drawing=no,
            tick=mdp.tick,
            discount_rate=mdp.discount_rate,
        )

    def _episode(self, trajectories: Int[Array, ""]) -> Int[Array, ""]:
        extra = trajectories - self.config.initial_trajectories
        return jnp.where(extra < 0, 0, 1 + extra // self.config.trajectories_per_episode)

    def _try(self, state: SacTacosState) -> tuple[Array, PRNGKeyArray]:
        """Pace and randomness of the next gradient steps, which are others after a setback."""
        setbacks = int(state.setbacks)
        return jnp.asarray(pace(setbacks)), another_try(jax.random.fold_in(state.key, Stream.UPDATE), setbacks)

    def _went_wrong(self, state: SacTacosState, chunk: Chunk[SacTacosState]) -> bool:
        return went_wrong(chunk, METRICS, phase="updates", episode=self.episode(state), setbacks=int(state.setbacks))

    @eqx.filter_jit
    def _learn(
        self, state: SacTacosState, count: Int[Array, ""], pace: Float[Array, ""], key: PRNGKeyArray
    ) -> Chunk[SacTacosState]:
        """The next `count` gradient steps, with all statistics that were gathered."""
        learner: Learner = eqx.tree_at(lambda learner: learner.statistics, state.learner, state.gathered)
        update = Update.of(self.config, ExtendedMdp.of(self.config, state.spec).actions)
        chunk = sac_updates(update, learner, state.replay, Span(state.updates, count, pace, key))
        metrics = {name: jnp.where(count > 0, chunk.metrics[name], state.metrics[name]) for name in METRICS}
        learnt = eqx.tree_at(
            lambda s: (s.learner, s.updates, s.pending, s.metrics),
            state,
            (chunk.state, state.updates + count, state.pending - count, metrics),
        )
        return Chunk(learnt, metrics, chunk.step, chunk.culprit, chunk.evidence)

    @eqx.filter_jit
    def _observe(self, state: SacTacosState, looks: Trajectory, count: Int[Array, ""]) -> SacTacosState:
        """With the first `count` of the looks, one more than there were decisions."""
        real = jnp.arange(looks.looks - 1) < count - 1
        decisions = ExtendedMdp.of(self.config, state.spec).of_looks(looks)
        trajectories, fresh = state.trajectories + 1, state.fresh + count - 1
        finished = self._episode(trajectories) > self._episode(state.trajectories)
        due = jnp.round(self.config.updates_per_decision * fresh).astype(jnp.int32)
        due = state.pending + jnp.where(finished, due, 0)
        drove = eqx.filter((state.learner.actor, state.learner.statistics), eqx.is_array)
        return eqx.tree_at(
            lambda s: (
                s.gathered,
                s.replay,
                s.history,
                s.trajectories,
                s.looks,
                s.fresh,
                s.pending,
                s.due,
                s.setbacks,
            ),
            state,
            (
                state.gathered.add(decisions.seen, real),
                state.replay.add(decisions, real),
                state.history.add(state.trajectories, looks, count, drove),
                trajectories,
                state.looks + count,
                jnp.where(finished, 0, fresh),
                due,
                due,
                jnp.zeros_like(state.setbacks),
            ),
        )

    @eqx.filter_jit
    def _practise(
        self,
        state: SacTacosState,
        env: Env,
        keys: Key[Array, " trajectories"],
        step: float,
        observation: ObservationKind,
        pace: Float[Array, ""],
        key: PRNGKeyArray,
    ) -> Chunk[SacTacosState]:
        static = eqx.filter(state, eqx.is_array, inverse=True)

        def trajectory(before: Chunk[Any], plant_key: PRNGKeyArray) -> tuple[Chunk[Any], None]:
            state = eqx.combine(before.state, static)
            chunk = self._learn(state, state.pending, pace, key)
            path = hold_path(env, self._acting(chunk.state), plant_key, step=step, observation=observation)
            state = self._observe(chunk.state, *looks_of(path))
            after = eqx.tree_at(lambda c: c.state, chunk, eqx.filter(state, eqx.is_array))
            # What comes after a culprit is of no use to anybody; the culprit itself is kept to be named.
            fine = before.culprit == NO_CULPRIT
            return jax.tree.map(lambda new, old: jnp.where(fine, new, old), after, before), None

        nothing = Chunk(
            eqx.filter(state, eqx.is_array),
            state.metrics,
            state.updates,
            jnp.asarray(NO_CULPRIT, jnp.int32),
            jnp.full(ExtendedMdp.of(self.config, state.spec).inputs, jnp.nan),
        )
        chunk, _ = jax.lax.scan(trajectory, nothing, keys)
        return eqx.tree_at(lambda c: c.state, chunk, eqx.combine(chunk.state, static))
