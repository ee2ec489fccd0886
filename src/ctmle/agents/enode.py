"""ENODE: a deterministic ensemble of neural ODEs with a continuous-time actor-critic (Yildiz et al., 2021)."""

from jaxtyping import Array, PRNGKeyArray

from ctmle.agents.model_based import ModelBasedAgent
from ctmle.agents.phases import ModelBasedState, Phase, Stream, Updates, Work
from ctmle.config import ENODEConfig
from ctmle.dynamics.loop import Chunk
from ctmle.dynamics.model import init_ensemble
from ctmle.dynamics.ode_fit import METRICS, OdeBelief, OdeFit, ode_updates
from ctmle.dynamics.prediction import MultiStep, Slopes
from ctmle.dynamics.transition import segments_of
from ctmle.envs.base import Spec
from ctmle.planning.rollout import LearnedWorld, World
from ctmle.schedules.base import Schedule


class ENODE(ModelBasedAgent[ENODEConfig]):
    """Match slopes once; predict stretches of looks; plan in what is believed; act; look again."""

    belief_metrics = METRICS

    def __init__(self, config: ENODEConfig | None = None):
        self.config = config or ENODEConfig()

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

    def _match_slopes(
        self, state: ModelBasedState, schedule: Schedule, count: Array, pace: Array, key: PRNGKeyArray
    ) -> Chunk[OdeBelief]:
        return ode_updates(self._matching(), state.spec, state.data, state.belief, state.step, count, pace, key)

    def _fit_dynamics(
        self, state: ModelBasedState, schedule: Schedule, count: Array, pace: Array, key: PRNGKeyArray
    ) -> Chunk[OdeBelief]:
        longest = schedule.longest_gap(self.config.trajectory_seconds or state.spec.horizon)
        fit = self._fit(segments_of(longest, self.config.longest_step))
        return ode_updates(fit, state.spec, state.data, state.belief, state.step, count, pace, key)

    def _matching(self) -> OdeFit:
        c = self.config
        return OdeFit(
            prediction=Slopes(),
            subsequences=c.matching_batch,
            length=c.dynamics_length,
            updates=c.matching_updates,
            learning_rate=c.matching_rate,
            final_rate=c.dynamics_final_rate,
            noise_rate=c.noise_rate if c.noise == "learned" else 0.0,
            noise_floor=c.noise_floor,
            weight_decay=c.weight_decay,
        )

    def _fit(self, segments: int) -> OdeFit:
        c = self.config
        return OdeFit(
            prediction=MultiStep(segments, c.solver, c.control),
            subsequences=c.dynamics_batch,
            length=c.dynamics_length,
            updates=c.dynamics_updates,
            learning_rate=c.dynamics_rate,
            final_rate=c.dynamics_final_rate,
            noise_rate=c.noise_rate if c.noise == "learned" else 0.0,
            noise_floor=c.noise_floor,
            weight_decay=c.weight_decay,
        )
