"""Lagrangian CT-MLE, the paper's practical algorithm (alg:imp-friendly)."""

import math
from enum import IntEnum
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ctmle.agents.base import Past, Standing
from ctmle.agents.setbacks import another_try, pace, went_wrong
from ctmle.config import CTMLEConfig
from ctmle.data.dataset import Dataset
from ctmle.data.finite import check_looks
from ctmle.data.trajectory import Trajectory
from ctmle.dynamics.fit import METRICS as FIT_METRICS
from ctmle.dynamics.fit import Belief, Fit, fit_updates
from ctmle.dynamics.loop import Chunk
from ctmle.dynamics.model import fit_scales, init_ensemble
from ctmle.dynamics.objectives import NegativeLogLikelihood, SlicedScoreMatching
from ctmle.dynamics.transition import TransitionLaw
from ctmle.envs.base import Spec
from ctmle.planning.improve import METRICS as IMPROVE_METRICS
from ctmle.planning.improve import ActorCritic, Improve, improve_updates
from ctmle.planning.optimism import CriticAdvantage, eta, planning_share
from ctmle.planning.policy import Feedback, Policy, random_signal, silent_signal
from ctmle.planning.rollout import LearnedWorld, World
from ctmle.planning.starts import Starts
from ctmle.schedules.base import Looks, Schedule

WAVES = 3


class Phase(IntEnum):
    """What an agent does next."""

    DYNAMICS = 0
    POLICY = 1
    ACT = 2


class Stream(IntEnum):
    """Purposes of randomness: each has its own key, so that no use of one shifts another."""

    BELIEF = 0
    ACTOR_CRITIC = 1
    LOOKS = 2
    EXPLORE = 3
    FIT = 4
    IMPROVE = 5


class CTMLEState(eqx.Module):
    """All that the agent knows, and where in its episode it stands."""

    spec: Spec
    key: PRNGKeyArray
    data: Dataset
    belief: Belief
    actor_critic: ActorCritic
    phase: Int[Array, ""]
    step: Int[Array, ""]
    setbacks: Int[Array, ""]
    metrics: dict[str, Float[Array, ""]]


class CTMLE:
    """Fit drift and diffusion to every look so far, leaning towards good news; plan in that belief; act; look again."""

    def __init__(self, config: CTMLEConfig | None = None, known_world: World | None = None):
        """With a `known_world` there is nothing to fit: the oracle, whose policy is improved in the true SDE."""
        self.config = config or CTMLEConfig()
        self.known_world = known_world

    @eqx.filter_jit
    def init(self, spec: Spec, key: PRNGKeyArray) -> CTMLEState:
        c = self.config
        ensemble = init_ensemble(
            spec,
            jax.random.fold_in(key, Stream.BELIEF),
            members=c.ensemble,
            hidden=c.dynamics_hidden,
            diffusion=c.diffusion,
            floor=c.diffusion_floor,
        )
        actor_critic = self._improve().init(spec, jax.random.fold_in(key, Stream.ACTOR_CRITIC))
        return CTMLEState(
            spec=spec,
            key=key,
            data=self._no_data(spec, feedback=actor_critic.feedback),
            belief=self._fit(segments=1).init(ensemble),
            actor_critic=actor_critic,
            phase=jnp.asarray(Phase.ACT, jnp.int32),
            step=jnp.asarray(0, jnp.int32),
            setbacks=jnp.asarray(0, jnp.int32),
            metrics={name: jnp.zeros(()) for name in (*FIT_METRICS, *IMPROVE_METRICS)},
        )

    def episode(self, state: CTMLEState) -> int:
        """The number n of the episode that the agent works on; 0 while it still gathers its initial data."""
        return self._episode_of(int(state.data.count))

    def standing(self, state: CTMLEState) -> Standing:
        c, phase = self.config, Phase(int(state.phase))
        first = 0 if self.known_world else c.dynamics_updates
        total = first + c.policy_updates
        before = {Phase.DYNAMICS: 0, Phase.POLICY: first, Phase.ACT: total}[phase]
        metrics = {name: float(value) for name, value in sorted(state.metrics.items())}
        metrics |= {"setbacks": float(state.setbacks)}
        if self.known_world is None and self.episode(state) > 0:
            metrics |= {"eta": eta(c.eta_base, self.episode(state))}
        return Standing(
            episode=self.episode(state),
            phase=phase.name.lower(),
            done=before + int(state.step),
            total=total,
            trajectories=int(state.data.count),
            looks=int(state.data.looks),
            metrics=metrics,
        )

    def ready(self, state: CTMLEState) -> bool:
        return int(state.phase) == Phase.ACT

    def advance(self, state: CTMLEState, schedule: Schedule) -> CTMLEState:
        """The next `chunk` updates of the current phase."""
        if int(state.phase) == Phase.DYNAMICS:
            return self._advance_dynamics(state, schedule)
        if int(state.phase) == Phase.POLICY:
            return self._advance_policy(state)
        return state

    def propose(self, state: CTMLEState, schedule: Schedule) -> tuple[CTMLEState, Policy, Looks]:
        """Believe, plan, decide when to look."""
        while not self.ready(state):
            state = self.advance(state, schedule)
        spec, number = state.spec, int(state.data.count)
        looks_key = jax.random.fold_in(jax.random.fold_in(state.key, Stream.LOOKS), number)
        looks = schedule.looks(looks_key, self.config.trajectory_seconds or spec.horizon)
        if self.episode(state) > 0:
            return state, self.policy(state), looks
        explore_key = jax.random.fold_in(jax.random.fold_in(state.key, Stream.EXPLORE), number)
        signal = random_signal(spec, explore_key, waves=WAVES)
        return state, Policy(state.actor_critic.feedback, signal, jnp.zeros(())), looks

    def observe(self, state: CTMLEState, trajectory: Trajectory) -> CTMLEState:
        """Write down what was seen; a finished episode leads to the next fit."""
        check_looks(trajectory)
        before = self.episode(state)
        state = eqx.tree_at(lambda s: s.data, state, state.data.add(trajectory))
        first = Phase.DYNAMICS if self.known_world is None else Phase.POLICY
        phase = first if self.episode(state) > before else Phase.ACT
        if before == 0 and self.episode(state) == 1:
            ensemble = fit_scales(state.belief.ensemble, state.spec, state.data)
            state = eqx.tree_at(lambda s: s.belief.ensemble, state, ensemble)
        zero = jnp.asarray(0, jnp.int32)
        setbacks = zero if self.episode(state) > before else state.setbacks
        return eqx.tree_at(
            lambda s: (s.phase, s.step, s.setbacks), state, (jnp.asarray(phase, jnp.int32), zero, setbacks)
        )

    def policy(self, state: CTMLEState) -> Policy:
        """The current policy, without exploration."""
        return Policy(state.actor_critic.feedback, silent_signal(state.spec, WAVES), jnp.ones(()))

    def history(self, state: CTMLEState) -> list[Past]:
        rows = range(self.config.initial_trajectories, int(state.data.count))
        pasts = ((self._episode_of(row), state.data.trajectory(row)) for row in rows)
        return [Past(episode, trajectory.policy, trajectory) for episode, trajectory in pasts]

    def parts(self, state: CTMLEState) -> dict[str, Any]:
        return {
            "policy": self.policy(state),
            "critic": state.actor_critic.critic,
            "model": state.belief.ensemble,
            "data": state.data,
        }

    def world(self, state: CTMLEState) -> World:
        """The SDE that the policy is improved in."""
        return LearnedWorld(state.belief.ensemble) if self.known_world is None else self.known_world

    def _episode_of(self, trajectory: int) -> int:
        """The episode that the trajectory of this number, from 0, belongs to."""
        extra = trajectory - self.config.initial_trajectories
        return 0 if extra < 0 else 1 + extra // self.config.trajectories_per_episode

    def _no_data(self, spec: Spec, feedback: Feedback) -> Dataset:
        capacity = self.config.initial_trajectories + 32 * self.config.trajectories_per_episode
        like = Trajectory(
            times=jnp.zeros(1),
            states=jnp.zeros((1, spec.observation.size)),
            controls=jnp.zeros((1, spec.control_size)),
            policy=Policy(feedback, silent_signal(spec, WAVES), jnp.zeros(())),
        )
        return Dataset.empty(like, capacity)

    def _advance_dynamics(self, state: CTMLEState, schedule: Schedule) -> CTMLEState:
        c, episode = self.config, self.episode(state)
        seconds = c.trajectory_seconds or state.spec.horizon
        fit = self._fit(segments=math.ceil(schedule.longest_gap(seconds) / c.longest_step - 1e-6))
        advantage = None
        if c.optimism:
            ac = state.actor_critic
            advantage = CriticAdvantage(ac.critic, ac.target, state.spec, c.discount_time)
        share = planning_share(c.eta_base, episode, c.optimism_ratio) if c.optimism else 0.0
        count = min(c.chunk, c.dynamics_updates - int(state.step))
        chunk = fit_updates(
            fit,
            state.spec,
            state.data,
            advantage,
            jnp.asarray(share),
            state.belief,
            state.step,
            jnp.asarray(count, jnp.int32),
            *self._try(state, Stream.FIT),
        )
        if self._went_wrong(state, chunk, FIT_METRICS):
            return eqx.tree_at(lambda s: s.setbacks, state, state.setbacks + 1)
        state = eqx.tree_at(lambda s: s.belief, state, chunk.state)
        return self._moved(state, chunk.metrics, count, c.dynamics_updates, Phase.POLICY)

    def _advance_policy(self, state: CTMLEState) -> CTMLEState:
        c, episode = self.config, self.episode(state)
        starts = Starts.from_data(state.spec, state.data, reset_share=c.reset_starts, box_share=c.box_starts)
        bootstrap = min(1.0, episode / c.bootstrap_episodes)
        count = min(c.chunk, c.policy_updates - int(state.step))
        chunk = improve_updates(
            self._improve(),
            state.spec,
            self.world(state),
            starts,
            jnp.asarray(bootstrap),
            state.actor_critic,
            state.step,
            jnp.asarray(count, jnp.int32),
            *self._try(state, Stream.IMPROVE),
        )
        if self._went_wrong(state, chunk, IMPROVE_METRICS):
            return eqx.tree_at(lambda s: s.setbacks, state, state.setbacks + 1)
        state = eqx.tree_at(lambda s: s.actor_critic, state, chunk.state)
        return self._moved(state, chunk.metrics, count, c.policy_updates, Phase.ACT)

    def _try(self, state: CTMLEState, stream: Stream) -> tuple[Array, PRNGKeyArray]:
        """Pace and randomness of the next chunk, which are others after a setback."""
        setbacks = int(state.setbacks)
        key = jax.random.fold_in(jax.random.fold_in(state.key, stream), self.episode(state))
        return jnp.asarray(pace(setbacks)), another_try(key, setbacks)

    def _went_wrong(self, state: CTMLEState, chunk: Chunk[Any], metrics: tuple[str, ...]) -> bool:
        phase = Phase(int(state.phase)).name.lower()
        return went_wrong(chunk, metrics, phase=phase, episode=self.episode(state), setbacks=int(state.setbacks))

    def _moved(self, state: CTMLEState, metrics: dict[str, Array], count: int, total: int, then: Phase) -> CTMLEState:
        step = int(state.step) + count
        phase, step = (then, 0) if step >= total else (Phase(int(state.phase)), step)
        return eqx.tree_at(
            lambda s: (s.phase, s.step, s.metrics),
            state,
            (jnp.asarray(phase, jnp.int32), jnp.asarray(step, jnp.int32), {**state.metrics, **metrics}),
        )

    def _fit(self, segments: int) -> Fit:
        c = self.config
        if c.objective == "likelihood":
            objective = NegativeLogLikelihood()
        else:
            objective = SlicedScoreMatching(c.projections, c.gap_weighted)
        return Fit(
            law=TransitionLaw(segments, c.solver, c.covariance),
            objective=objective,
            control=c.control,
            chained=c.chained,
            subsequences=c.dynamics_batch,
            length=c.dynamics_length,
            updates=c.dynamics_updates,
            learning_rate=c.dynamics_rate,
            final_rate=c.dynamics_final_rate,
            diffusion_rate=c.diffusion_rate,
            weight_decay=c.weight_decay,
        )

    def _improve(self) -> Improve:
        c = self.config
        return Improve(
            hidden=c.policy_hidden,
            updates=c.policy_updates,
            horizon=c.policy_horizon,
            step=c.policy_step,
            discount_time=c.discount_time,
            particles=c.particles,
            actor_rate=c.policy_rate,
            final_rate=c.policy_final_rate,
            critic_rate=c.critic_rate,
            critic_steps=c.critic_steps,
            critic_batch=c.critic_batch,
            target_every=c.target_every,
            clip=c.gradient_clip,
        )
