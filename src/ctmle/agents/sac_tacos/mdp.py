"""The extended MDP (Treven et al. 2024, section 3): states carry the time, actions a hold, rewards are integrals."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ctmle.agents.sac_tacos.replay import Decisions
from ctmle.config import SacTacosConfig
from ctmle.data.holding import Decision, tick_times
from ctmle.data.trajectory import Trajectory
from ctmle.envs.base import Spec


class ExtendedMdp(eqx.Module):
    """Between a controlled SDE and an agent whose inputs and actions are vectors, with actions in [-1, 1]."""

    spec: Spec
    tick: float = eqx.field(static=True)
    min_hold: int = eqx.field(static=True)
    max_hold: int = eqx.field(static=True)
    gamma: float = eqx.field(static=True)
    switch_cost: float = eqx.field(static=True)
    reward_scale: float = eqx.field(static=True)
    bootstrap_at_horizon: bool = eqx.field(static=True)

    @staticmethod
    def of(config: SacTacosConfig, spec: Spec) -> "ExtendedMdp":
        return ExtendedMdp(
            spec=spec,
            tick=config.tick,
            min_hold=config.min_hold,
            max_hold=config.max_hold,
            gamma=config.gamma,
            switch_cost=config.switch_cost,
            reward_scale=config.reward_scale,
            bootstrap_at_horizon=config.bootstrap_at_horizon,
        )

    @property
    def inputs(self) -> int:
        return self.spec.observation.feature_size + 1

    @property
    def actions(self) -> int:
        return self.spec.control_size + 1

    @property
    def discount_rate(self) -> float:
        """beta such that exp(-beta * tick) = gamma."""
        return -math.log(self.gamma) / self.tick

    @property
    def most_decisions(self) -> int:
        """In one episode."""
        return len(tick_times(self.tick, self.spec.horizon)) - 1

    def seen(self, t: Float[Array, "*batch"], y: Float[Array, "*batch observed"]) -> Float[Array, "*batch inputs"]:
        """Features of the observation, and the time to go."""
        return jnp.concatenate([self.spec.observation.features(y), self.spec.horizon - t[..., None]], axis=-1)

    def decision(self, action: Float[Array, " action"]) -> Decision:
        low, high = self._bounds(action.dtype)
        control = low + 0.5 * (high - low) * (action[:-1] + 1)
        ticks = jnp.round(self.min_hold * (self.max_hold / self.min_hold) ** (0.5 * (action[-1] + 1)))
        return Decision(control, self.tick * ticks)

    def action(
        self, control: Float[Array, "*batch control"], hold: Float[Array, "*batch"]
    ) -> Float[Array, "*batch action"]:
        """The action that holds this control for so long. So a hold that was cut short counts as what it became."""
        low, high = self._bounds(control.dtype)
        ticks = jnp.clip(hold / self.tick, self.min_hold, self.max_hold)
        return jnp.concatenate([2 * (control - low) / (high - low) - 1, self._scaled(ticks)[..., None]], axis=-1)

    @property
    def shortest(self) -> Float[Array, " action"]:
        """The middle of every control, held for as short as may be."""
        return jnp.append(jnp.zeros(self.spec.control_size), -1.0)

    def random_action(self, key: PRNGKeyArray) -> Float[Array, " action"]:
        """Controls uniform within their bounds, holds uniform in their logarithm."""
        return jax.random.uniform(key, (self.actions,), minval=-1.0, maxval=1.0)

    def decisions(
        self,
        t: Float[Array, " rows"],
        y: Float[Array, "rows observed"],
        u: Float[Array, "rows control"],
        t_next: Float[Array, " rows"],
        y_next: Float[Array, "rows observed"],
        gained: Float[Array, " rows"],
    ) -> Decisions:
        """Rows of experience: r = integral of exp(-beta s) b over the hold, minus the switch cost; d = exp(-beta hold).

        At the horizon d is 0 if nothing comes after it.
        """
        hold = t_next - t
        ended = (t_next > self.spec.horizon - 0.5 * self.tick) & (not self.bootstrap_at_horizon)
        return Decisions(
            seen=self.seen(t, y),
            action=self.action(u, hold),
            reward=self.reward_scale * (gained - self.switch_cost),
            discount=jnp.where(ended, 0.0, jnp.exp(-self.discount_rate * hold)),
            seen_next=self.seen(t_next, y_next),
        )

    def of_looks(self, looks: Trajectory) -> Decisions:
        """The decisions of an episode on any plant. Rewards that were not measured are estimated from the looks."""
        t, y, u = looks.times, looks.states, looks.controls[:-1]
        gained = looks.rewards
        if gained is None:
            hold = jnp.diff(t)
            here, there = self.spec.reward(y[:-1], u), self.spec.reward(y[1:], u)
            gained = 0.5 * hold * (here + jnp.exp(-self.discount_rate * hold) * there)
        return self.decisions(t[:-1], y[:-1], u, t[1:], y[1:], gained)

    def _scaled(self, ticks: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
        """Holds are scaled by their logarithm: a tick more or less matters to a short hold and not to a long one."""
        if self.min_hold == self.max_hold:
            return jnp.zeros_like(ticks)
        return 2 * jnp.log(ticks / self.min_hold) / math.log(self.max_hold / self.min_hold) - 1

    def _bounds(self, dtype: jnp.dtype) -> tuple[Array, Array]:
        return jnp.asarray(self.spec.control_low, dtype), jnp.asarray(self.spec.control_high, dtype)
