"""The extended MDP (Treven et al. 2024, section 3), whose states carry the time and actions a hold, and its policy."""

import math
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ctmle.agents.sac_tacos.memory import Decisions, Statistics
from ctmle.agents.sac_tacos.networks import sample_action
from ctmle.data.trajectory import Trajectory
from ctmle.envs.base import Spec
from ctmle.plants.base import Decision, Holds
from ctmle.plants.ticks import tick_times
from ctmle.settings import Count, NonNegative, OpenShare, Part, Positive
from ctmle.training.mlp import Mlp


@dataclass(frozen=True)
class Holding(Part):
    """How long controls are held, and what a decision costs and earns."""

    tick: Positive = 0.05
    """Unit of holds in seconds."""
    min_hold: Count = 1
    """[t_min] Shortest hold in ticks."""
    max_hold: Count = 30
    """[t_max] Longest hold in ticks."""
    switch_cost: NonNegative = 0.002
    """[c] Cost of a decision, in units of reward times seconds. Large: long holds, few looks."""
    gamma: OpenShare = 0.99
    """Discount per tick; the discount of a hold is exp(-beta * hold) with exp(-beta * tick) = gamma."""
    bootstrap_at_horizon: bool = True
    """The horizon is a time limit, and value beyond it counts. Otherwise it is the end, and nothing comes after."""
    reward_scale: Positive = 20.0
    """Rewards are multiplied by this before they are learned from."""

    def check(self) -> None:
        if self.min_hold > self.max_hold:
            raise ValueError(f"min_hold {self.min_hold} is longer than max_hold {self.max_hold}")


class ExtendedMdp(eqx.Module):
    """The MDP between a controlled SDE and an agent whose inputs and actions are vectors, with actions in [-1, 1]."""

    spec: Spec
    how: Holding = eqx.field(static=True)

    @property
    def inputs(self) -> int:
        return self.spec.observation.feature_size + 1

    @property
    def actions(self) -> int:
        return self.spec.control_size + 1

    @property
    def discount_rate(self) -> float:
        """beta such that exp(-beta * tick) = gamma."""
        return -math.log(self.how.gamma) / self.how.tick

    @property
    def most_decisions(self) -> int:
        """The most decisions of one episode."""
        return len(tick_times(self.how.tick, self.spec.horizon)) - 1

    def seen(self, t: Float[Array, "*batch"], y: Float[Array, "*batch observed"]) -> Float[Array, "*batch inputs"]:
        """Return the features of the observation, and the time to go."""
        return jnp.concatenate([self.spec.observation.features(y), self.spec.horizon - t[..., None]], axis=-1)

    def decision(self, action: Float[Array, " action"]) -> Decision:
        low, high = self._bounds(action.dtype)
        control = low + 0.5 * (high - low) * (action[:-1] + 1)
        ticks = jnp.round(self.how.min_hold * (self.how.max_hold / self.how.min_hold) ** (0.5 * (action[-1] + 1)))
        return Decision(control, self.how.tick * ticks)

    def action(
        self, control: Float[Array, "*batch control"], hold: Float[Array, "*batch"]
    ) -> Float[Array, "*batch action"]:
        """Return the action that holds this control for so long; a hold that was cut short counts as what it became."""
        low, high = self._bounds(control.dtype)
        ticks = jnp.clip(hold / self.how.tick, self.how.min_hold, self.how.max_hold)
        return jnp.concatenate([2 * (control - low) / (high - low) - 1, self._scaled(ticks)[..., None]], axis=-1)

    @property
    def shortest(self) -> Float[Array, " action"]:
        """The middle of every control, held as short as possible."""
        return jnp.append(jnp.zeros(self.spec.control_size), -1.0)

    def random_action(self, key: PRNGKeyArray) -> Float[Array, " action"]:
        """Draw controls uniformly within their bounds, holds uniformly in their logarithm."""
        return jax.random.uniform(key, (self.actions,), minval=-1.0, maxval=1.0)

    def decisions(self, looks: Trajectory) -> Decisions:
        """Return the decisions of an episode: r = integral of exp(-beta s) b over the hold - cost, d = exp(-beta hold).

        Rewards that were not measured are estimated from the looks. At the horizon d is 0 if nothing comes after it.
        """
        t, y, u = looks.times, looks.states, looks.controls[:-1]
        hold, gained = jnp.diff(t), looks.rewards
        discount = jnp.exp(-self.discount_rate * hold)
        if gained is None:
            gained = 0.5 * hold * (self.spec.reward(y[:-1], u) + discount * self.spec.reward(y[1:], u))
        ended = (t[1:] > self.spec.horizon - 0.5 * self.how.tick) & (not self.how.bootstrap_at_horizon)
        return Decisions(
            seen=self.seen(t[:-1], y[:-1]),
            action=self.action(u, hold),
            reward=self.how.reward_scale * (gained - self.how.switch_cost),
            discount=jnp.where(ended, 0.0, discount),
            seen_next=self.seen(t[1:], y[1:]),
        )

    def _scaled(self, ticks: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
        """Scale holds by their logarithm: a tick more or less matters to a short hold and not to a long one."""
        if self.how.min_hold == self.how.max_hold:
            return jnp.zeros_like(ticks)
        return 2 * jnp.log(ticks / self.how.min_hold) / math.log(self.how.max_hold / self.how.min_hold) - 1

    def _bounds(self, dtype: jnp.dtype) -> tuple[Array, Array]:
        return jnp.asarray(self.spec.control_low, dtype), jnp.asarray(self.spec.control_high, dtype)


class TacosPolicy(Holds):
    """Uniformly random decisions (`exploring`), draws from the actor (`drawing`), or the actor's mode (neither).

    `statistics` normalise the actor's inputs as they did in training.
    """

    mdp: ExtendedMdp
    actor: Mlp
    statistics: Statistics
    key: PRNGKeyArray
    exploring: Bool[Array, ""]
    drawing: Bool[Array, ""]
    tick: float = eqx.field(static=True)
    discount_rate: float = eqx.field(static=True)
    control_size: int = eqx.field(static=True)

    def decide(self, t: Float[Array, ""], y: Float[Array, " observed"]) -> Decision:
        key = jax.random.fold_in(self.key, jnp.round(t / self.tick).astype(jnp.uint32))
        random_key, noise_key = jax.random.split(key)
        noise = jnp.where(self.drawing, jax.random.normal(noise_key, (self.mdp.actions,)), 0.0)
        action, _ = sample_action(self.actor, self.statistics.normalise(self.mdp.seen(t, y)), noise)
        return self.mdp.decision(jnp.where(self.exploring, self.mdp.random_action(random_key), action))


def padded(trajectory: Trajectory, decisions: int) -> Trajectory:
    """Repeat the last look up to a multiple of `decisions`, so that the number of looks compiles nothing anew."""
    missing = -(trajectory.looks - 1) % decisions

    def pad(column: Array) -> Array:
        return jnp.asarray(np.pad(np.asarray(column), [(0, missing)] + [(0, 0)] * (column.ndim - 1), mode="edge"))

    columns = (trajectory.times, trajectory.states, trajectory.controls, trajectory.rewards)
    times, states, controls, rewards = jax.tree.map(pad, columns)
    return Trajectory(times, states, controls, rewards=rewards)
