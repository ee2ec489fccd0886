"""SAC-TaCoS: soft actor-critic on the extended MDP (Treven et al., 2024)."""

from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray

from ctmle.agents.base import Agent, Experience, Past, Progress
from ctmle.agents.kept import EMPTY, Kept
from ctmle.agents.sac_tacos.mdp import ExtendedMdp, Holding, TacosPolicy, padded
from ctmle.agents.sac_tacos.memory import Driven, Replay, Statistics
from ctmle.agents.sac_tacos.soft_actor_critic import SacState, SoftActorCritic
from ctmle.data.trajectory import Trajectory, checked
from ctmle.envs.base import Spec
from ctmle.plants.simulated import SimulatedSDE
from ctmle.plants.ticks import looks_of, run_ticks
from ctmle.schedules.base import DecidedLooks, Schedule
from ctmle.settings import Count, Positive
from ctmle.training.failures import MOST_RETRIES
from ctmle.training.mlp import Mlp
from ctmle.training.updates import ALL_FINITE, Outcome, Span, failed, loop_updates

LEARNER, ACT, UPDATE, KEEP = 0, 1, 2, 3
"""Random streams."""

STAGE = "updates"

ROUNDING = 1e-6
"""Share of a period by which a whole number of them may be missed."""

PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "paper": {
        "observation": "trig",
        "batch": 64,
        "updates_per_decision": 1.0,
        "target_rate": 0.005,
        "pessimism": 1.0,
        "actor_rate": 3e-4,
        "critic_rate": 3e-4,
        "temperature_rate": 3e-4,
        "initial_temperature": 1.0,
        "gradient_clip": 1e5,
        "switch_cost": 0.005,
        "bootstrap_at_horizon": False,
    },
    "quick": {"episodes": 2, "updates_per_decision": 2.0},
    "convergence": {"episodes": 100, "test_every": 10},
}
"""Options of each preset: `paper` has the values of the public code (docs/sac-tacos.md lists where it still differs),
`convergence` trains for many more episodes than a comparison would."""


class SacTacosState(eqx.Module):
    """Everything the agent knows, and how far it is in its episode.

    The learner takes over the statistics of the replay when it next learns. `fresh` decisions have been seen since it
    last did; of the gradient steps `due` in this episode, `pending` are to come.
    """

    mdp: ExtendedMdp
    key: PRNGKeyArray
    learner: SacState
    replay: Replay
    history: Kept
    """Trajectories with the policies that drove them."""
    trajectories: Int[Array, ""]
    updates: Int[Array, ""]
    fresh: Int[Array, ""]
    pending: Int[Array, ""]
    due: Int[Array, ""]
    retries: Int[Array, ""]
    metrics: dict[str, Float[Array, ""]]

    @property
    def looks(self) -> Int[Array, ""]:
        """All looks so far: one for each decision, and one at the end of each trajectory."""
        return self.replay.added + self.trajectories


@dataclass(frozen=True)
class SacTacos(Agent):
    """Decide what to do and for how long; remember what it gave; take gradient steps on what is remembered."""

    learner: SoftActorCritic = SoftActorCritic()
    holding: Holding = Holding()
    initial_trajectories: Count = 3
    """[N_0] Trajectories of random decisions before the first episode."""
    trajectories_per_episode: Count = 1
    """[N_inc] Trajectories added after each episode."""
    updates_per_decision: Positive = 10.0
    """Gradient steps per decision."""
    replay_capacity: Count = 65_536
    """Newest decisions to learn from."""
    policies_kept: Count = 32
    """Trajectories kept with their policies: a uniform sample of all, for `--which best` and `--which random`."""
    chunk: Count = 500
    """Gradient steps per compiled call: how often progress is shown."""

    knows_horizon = True
    practises = True

    def fits(self, spec: Spec, schedule: Schedule) -> None:
        how = self.holding
        if spec.state_reward is None:
            raise ValueError("sac-tacos needs a system whose reward is known: choose --agent ct-mle")
        if how.tick > spec.horizon:
            raise ValueError(f"tick {how.tick:g} is longer than the horizon {spec.horizon:g} s: choose a shorter tick")
        if how.min_hold * how.tick > spec.horizon:
            raise ValueError(
                f"min_hold {how.min_hold} ticks of {how.tick:g} s are longer than the horizon {spec.horizon:g} s:"
                " choose shorter holds"
            )
        if spec.hold is not None and abs(how.tick / spec.hold - round(how.tick / spec.hold)) > ROUNDING:
            raise ValueError(
                f"tick {how.tick:g} is no whole number of the {spec.hold:g} s for which this plant holds a control:"
                f" choose --tick {spec.hold:g}"
            )

    @eqx.filter_jit
    def init(self, spec: Spec, key: PRNGKeyArray) -> SacTacosState:
        mdp, zero = ExtendedMdp(spec, self.holding), jnp.zeros((), jnp.int32)
        learner = self.learner.init(mdp, jax.random.fold_in(key, LEARNER))
        sizes = (mdp.most_decisions + 1, spec.observation.size, spec.control_size)
        return SacTacosState(
            mdp=mdp,
            key=key,
            learner=learner,
            replay=Replay.empty(self.replay_capacity, mdp.inputs, mdp.actions),
            history=Kept.empty(self.policies_kept, Driven.empty(*sizes, (learner.actor, learner.statistics))),
            trajectories=zero,
            updates=zero,
            fresh=zero,
            pending=zero,
            due=zero,
            retries=zero,
            metrics={name: jnp.zeros(()) for name in self.learner.metrics},
        )

    def progress(self, state: SacTacosState) -> Progress:
        metrics = {name: float(value) for name, value in sorted(state.metrics.items())}
        return Progress(
            episode=self.episode(state),
            stage="act" if self.ready(state) else STAGE,
            done=int(state.due) - int(state.pending),
            total=int(state.due),
            trajectories=int(state.trajectories),
            looks=int(state.looks),
            metrics=metrics | {"updates": int(state.updates), "setbacks": float(state.retries)},
        )

    def experience(self, state: SacTacosState) -> Experience:
        """Return all data so far: the policy of an agent that is ready was trained on it."""
        return Experience(int(state.trajectories) * state.mdp.spec.horizon, int(state.looks))

    def episode(self, state: SacTacosState) -> int:
        """Return the number n of the episode that the agent works on; 0 while it still gathers its initial data."""
        return int(self._episode(state.trajectories))

    def ready(self, state: SacTacosState) -> bool:
        return int(state.pending) == 0

    def advance(self, state: SacTacosState, schedule: Schedule | None = None) -> SacTacosState:
        """Run the next `chunk` gradient steps. The policy decides when to look, so the schedule is not used."""
        outcome = self._learn(state, self._span(state, jnp.minimum(self.chunk, state.pending)))
        if self._failed(state, outcome):
            return replace(state, retries=state.retries + 1)
        return outcome.state

    def propose(
        self, state: SacTacosState, schedule: Schedule | None = None
    ) -> tuple[SacTacosState, TacosPolicy, DecidedLooks]:
        """Learn from what was seen, then act on it, with the policy's own randomness to explore by."""
        while not self.ready(state):
            state = self.advance(state)
        return state, self._acting(state), DecidedLooks()

    def observe(self, state: SacTacosState, trajectory: Trajectory) -> SacTacosState:
        """Remember a trajectory; after the last one of an episode, gradient steps are due."""
        spec = state.mdp.spec
        trajectory = checked(trajectory, spec, spec.horizon)
        looks = padded(trajectory, state.mdp.most_decisions)
        return self._observe(state, looks, jnp.asarray(trajectory.looks, jnp.int32))

    def practise(self, state: SacTacosState, plant: SimulatedSDE, keys: Key[Array, " trajectories"]) -> SacTacosState:
        """Drive a trajectory for each key, learning before each, in one compiled loop, as propose and observe would."""
        while True:
            outcome = self._practise(state, plant, keys, self._span(state, jnp.zeros((), jnp.int32)))
            if not self._failed(state, outcome):
                return outcome.state
            state = replace(state, retries=state.retries + 1)

    def policy(self, state: SacTacosState) -> TacosPolicy:
        return self._policy(state, state.learner.actor, state.learner.statistics)

    def history(self, state: SacTacosState) -> list[Past]:
        """Return a uniform sample of at most `policies_kept` trajectories, and the last one; none before the first."""
        kept, pasts = state.history, []
        for row in kept.filled:
            driven = kept.row(row)
            episode, policy = 1 + int(kept.numbers[row]) // self.trajectories_per_episode, driven.policy
            past = (episode, self._policy(state, *policy), driven.trajectory)
            pasts.append(Past(*past, sampled=row < self.policies_kept))
        return pasts

    def parts(self, state: SacTacosState) -> dict[str, Any]:
        return {"policy": self.policy(state), "critic": state.learner.critics, "data": state.replay}

    def flaw(self, state: SacTacosState) -> str | None:
        history, trajectories = state.history, int(state.trajectories)
        numbers, lengths = np.asarray(history.numbers), np.asarray(history.rows.length)
        counters = (trajectories, int(state.replay.added), int(state.updates), int(state.fresh))
        unknown, too_long = (numbers < EMPTY) | (numbers >= max(trajectories, 1)), lengths > history.rows.room
        flaws = {
            "the history has trajectories that were not driven": bool(np.any(unknown)),
            "the history counts more looks than it has": bool(np.any((lengths < 0) | too_long)),
            "it counts impossible decisions or updates": min(counters) < 0
            or not 0 <= int(state.pending) <= int(state.due),
            "it has updates to do and nothing to learn from": int(state.pending) > 0 and int(state.replay.added) == 0,
            "it counts impossible retries": not 0 <= int(state.retries) <= MOST_RETRIES,
        }
        return next((flaw for flaw, found in flaws.items() if found), None)

    def _acting(self, state: SacTacosState) -> TacosPolicy:
        key = jax.random.fold_in(jax.random.fold_in(state.key, ACT), state.trajectories)
        exploring = self._episode(state.trajectories) == 0
        return replace(self.policy(state), key=key, exploring=exploring, drawing=jnp.asarray(True))

    def _policy(self, state: SacTacosState, actor: Mlp, statistics: Statistics) -> TacosPolicy:
        mdp, no = state.mdp, jnp.asarray(False)
        return TacosPolicy(
            mdp=mdp,
            actor=actor,
            statistics=statistics,
            key=state.key,
            exploring=no,
            drawing=no,
            tick=mdp.how.tick,
            discount_rate=mdp.discount_rate,
            control_size=mdp.spec.control_size,
        )

    def _episode(self, trajectories: Int[Array, ""]) -> Int[Array, ""]:
        extra = trajectories - self.initial_trajectories
        return jnp.where(extra < 0, 0, 1 + extra // self.trajectories_per_episode)

    def _span(self, state: SacTacosState, count: Int[Array, ""]) -> Span:
        """Return the next `count` gradient steps, which are others after a failure."""
        return Span.of(state.updates, count, jax.random.fold_in(state.key, UPDATE), int(state.retries))

    def _failed(self, state: SacTacosState, outcome: Outcome[SacTacosState]) -> bool:
        return failed(outcome, self.learner, STAGE, self.episode(state), int(state.retries))

    @eqx.filter_jit
    def _learn(self, state: SacTacosState, span: Span) -> Outcome[SacTacosState]:
        """Take the gradient steps of a span, with all statistics that were gathered."""
        learner = replace(state.learner, statistics=state.replay.statistics)
        outcome = loop_updates(self.learner, STAGE, state.replay, learner, span)
        means, count = outcome.metrics, span.count
        metrics = {name: jnp.where(count > 0, means[name], before) for name, before in state.metrics.items()}
        counts = {"updates": state.updates + count, "pending": state.pending - count}
        learnt = replace(state, learner=outcome.state, metrics=metrics, **counts)
        return Outcome(learnt, metrics, outcome.index, outcome.culprit, outcome.evidence)

    @eqx.filter_jit
    def _observe(self, state: SacTacosState, looks: Trajectory, count: Int[Array, ""]) -> SacTacosState:
        """Remember the first `count` of the looks, one more than there were decisions."""
        real = jnp.arange(looks.looks - 1) < count - 1
        trajectories, fresh = state.trajectories + 1, state.fresh + count - 1
        finished = self._episode(trajectories) > self._episode(state.trajectories)
        due = jnp.round(self.updates_per_decision * fresh).astype(jnp.int32)
        due = state.pending + jnp.where(finished, due, 0)
        own = state.trajectories - self.initial_trajectories
        drove = (state.learner.actor, state.learner.statistics)
        key = jax.random.fold_in(jax.random.fold_in(state.key, KEEP), state.trajectories)
        return replace(
            state,
            replay=state.replay.add(state.mdp.decisions(looks), real),
            history=state.history.add(own, Driven.of(looks, count, state.history.rows.room, drove), key),
            trajectories=trajectories,
            fresh=jnp.where(finished, 0, fresh),
            pending=due,
            due=due,
            retries=jnp.zeros_like(state.retries),
        )

    @eqx.filter_jit
    def _practise(
        self, state: SacTacosState, plant: SimulatedSDE, keys: Key[Array, " trajectories"], span: Span
    ) -> Outcome[SacTacosState]:
        arrays, static = eqx.partition(state, eqx.is_array)

        def trajectory(before: Outcome[Any], plant_key: PRNGKeyArray) -> tuple[Outcome[Any], None]:
            state = eqx.combine(before.state, static)
            outcome = self._learn(state, replace(span, first=state.updates, count=state.pending))
            how = {"step": plant.step, "observation": plant.observation}
            path = run_ticks(plant.env, self._acting(outcome.state), plant_key, **how)
            state = self._observe(outcome.state, *looks_of(path))
            after = replace(outcome, state=eqx.filter(state, eqx.is_array))
            # Nothing after a failure is of use; the failure itself is kept, to be reported.
            fine = before.culprit == ALL_FINITE
            return jax.tree.map(lambda new, old: jnp.where(fine, new, old), after, before), None

        no_evidence = jnp.full(state.replay.observed, jnp.nan)
        nothing = Outcome(arrays, state.metrics, state.updates, jnp.asarray(ALL_FINITE, jnp.int32), no_evidence)
        outcome, _ = jax.lax.scan(trajectory, nothing, keys)
        return replace(outcome, state=eqx.combine(outcome.state, static))
