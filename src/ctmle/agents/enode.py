"""ENODE: a deterministic ensemble of neural ODEs with a continuous-time actor-critic (Yildiz et al., 2021)."""

from dataclasses import dataclass

from jaxtyping import PRNGKeyArray

from ctmle.agents.model_based import ModelBasedAgent
from ctmle.agents.phases import ModelBasedState, Phase, Stream, Updates, Work
from ctmle.config import ENODEConfig
from ctmle.dynamics.loop import Chunk, Span
from ctmle.dynamics.model import init_ensemble
from ctmle.dynamics.ode_fit import METRICS, OdeBelief, OdeFit, ode_updates
from ctmle.dynamics.prediction import MultiStep, Prediction, Slopes
from ctmle.dynamics.transition import segments_of
from ctmle.envs.base import Spec
from ctmle.planning.rollout import LearnedWorld, World
from ctmle.schedules.base import Schedule


@dataclass(frozen=True)
class ENODE(ModelBasedAgent[ENODEConfig]):
    """Match slopes once; predict stretches of looks; plan in what is believed; act; look again."""

    config: ENODEConfig = ENODEConfig()

    belief_metrics = METRICS

    def init_belief(self, spec: Spec, key: PRNGKeyArray) -> OdeBelief:
        c = self.config
        ensemble = init_ensemble(spec, key, members=c.ensemble, hidden=c.dynamics_hidden, diffusion="none", floor=0.0)
        return self._matching().init(ensemble, c.noise_level)

    def believing(self, episode: int) -> tuple[Work, ...]:
        c = self.config
        fit = self._work(Phase.DYNAMICS, Stream.FIT, self._fit_dynamics, c.dynamics_updates)
        if episode > 1 or c.matching_updates == 0:
            return (fit,)
        return (self._work(Phase.MATCHING, Stream.MATCH, self._match_slopes, c.matching_updates), fit)

    def world(self, state: ModelBasedState) -> World:
        return LearnedWorld(state.belief.ensemble)

    def beside(self, episode: int) -> dict[str, float]:
        return {}

    def _work(self, phase: Phase, stream: Stream, updates: Updates, total: int) -> Work:
        return Work(phase, stream, lambda s: s.belief, updates, total, METRICS)

    def _match_slopes(self, state: ModelBasedState, schedule: Schedule, span: Span) -> Chunk[OdeBelief]:
        return ode_updates(self._matching(), state.spec, state.data, state.belief, span)

    def _fit_dynamics(self, state: ModelBasedState, schedule: Schedule, span: Span) -> Chunk[OdeBelief]:
        c = self.config
        longest = schedule.longest_gap(c.trajectory_seconds or state.spec.horizon)
        prediction = MultiStep(segments_of(longest, c.longest_step), c.solver, c.control)
        fit = self._fit(prediction, c.dynamics_batch, c.dynamics_updates, c.dynamics_rate)
        return ode_updates(fit, state.spec, state.data, state.belief, span)

    def _matching(self) -> OdeFit:
        c = self.config
        return self._fit(Slopes(), c.matching_batch, c.matching_updates, c.matching_rate)

    def _fit(self, prediction: Prediction, subsequences: int, updates: int, rate: float) -> OdeFit:
        c = self.config
        return OdeFit(
            prediction=prediction,
            subsequences=subsequences,
            length=c.dynamics_length,
            noise_rate=c.noise_rate if c.noise == "learned" else 0.0,
            noise_floor=c.noise_floor,
            descent=self._descent(updates, rate),
        )
