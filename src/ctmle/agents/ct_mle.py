"""Lagrangian CT-MLE, the paper's practical algorithm (alg:imp-friendly)."""

from dataclasses import dataclass, field

import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from ctmle.agents.model_based import ModelBasedAgent
from ctmle.agents.phases import ModelBasedState, Phase, Stream, Work
from ctmle.config.ct_mle import LONGEST_SEGMENT, CTMLEConfig
from ctmle.dynamics.fit import METRICS, Belief, Fit, fit_updates
from ctmle.dynamics.loop import Chunk, Span
from ctmle.dynamics.model import init_ensemble
from ctmle.dynamics.objectives import NegativeLogLikelihood, SlicedScoreMatching
from ctmle.dynamics.transition import TransitionLaw, segments_of
from ctmle.envs.base import Spec
from ctmle.planning.optimism import CriticAdvantage, eta, planning_share
from ctmle.planning.rollout import LearnedWorld, World
from ctmle.schedules.base import Schedule


@dataclass(frozen=True)
class CTMLE(ModelBasedAgent[CTMLEConfig]):
    """Fit drift and diffusion to every look so far, leaning towards good news; plan in that belief; act; look again.

    With a `known_world` there is nothing to fit: the oracle, whose policy is improved in the true SDE.
    """

    config: CTMLEConfig = CTMLEConfig()
    known_world: World | None = field(default=None, hash=False)

    belief_metrics = METRICS

    def init_belief(self, spec: Spec, key: PRNGKeyArray) -> Belief:
        c = self.config
        ensemble = init_ensemble(
            spec,
            key,
            members=c.ensemble,
            hidden=c.dynamics_hidden,
            diffusion=c.diffusion,
            floor=c.diffusion_floor,
        )
        return self._fit(self.config.longest_step).init(ensemble)

    def believing(self, episode: int) -> tuple[Work, ...]:
        fit = Work(
            phase=Phase.DYNAMICS,
            stream=Stream.FIT,
            part=lambda s: s.belief,
            updates=self._fit_dynamics,
            total=self.config.dynamics_updates,
            metrics=METRICS,
        )
        return (fit,) if self.known_world is None else ()

    def world(self, state: ModelBasedState) -> World:
        return LearnedWorld(state.belief.ensemble) if self.known_world is None else self.known_world

    def beside(self, episode: int) -> dict[str, float]:
        return {"eta": eta(self.config.eta_base, episode)} if self.known_world is None else {}

    def _fit_dynamics(self, state: ModelBasedState, schedule: Schedule, span: Span) -> Chunk[Belief]:
        c, ac, advantage, share = self.config, state.actor_critic, None, 0.0
        if c.optimism:
            advantage = CriticAdvantage(ac.critic, ac.target, state.spec, c.discount_time)
            share = planning_share(c.eta_base, self.episode(state), c.optimism_ratio)
        longest = schedule.longest_gap(c.trajectory_seconds or state.spec.horizon)
        fit = self._fit(longest)
        return fit_updates(fit, state.spec, state.data, advantage, jnp.asarray(share), state.belief, span)

    def _fit(self, longest_gap: float) -> Fit:
        c = self.config
        segments = segments_of(longest_gap, LONGEST_SEGMENT)
        steps = segments_of(longest_gap / segments, c.longest_step)
        if c.objective == "likelihood":
            objective = NegativeLogLikelihood()
        else:
            objective = SlicedScoreMatching(c.projections, c.gap_weighted)
        return Fit(
            law=TransitionLaw(segments, steps, c.solver, c.covariance),
            objective=objective,
            control=c.control,
            chained=c.chained,
            subsequences=c.dynamics_batch,
            length=c.dynamics_length,
            diffusion_rate=c.diffusion_rate,
            descent=self._descent(c.dynamics_updates, c.dynamics_rate),
        )
