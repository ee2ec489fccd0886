"""The continuous-time actor-critic: improve controls by differentiating returns through the learned SDE."""

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from ctmle.envs.base import Spec
from ctmle.models.model import Members
from ctmle.models.world import Context, Values, World
from ctmle.planning.policy import Feedback, init_feedback
from ctmle.planning.rollout import Rollout, imagine, rollout, step_within
from ctmle.planning.starts import Memory, MixedStarts, Starts
from ctmle.settings import Count, NonNegative, OpenShare, Positive, Share, Widths, option
from ctmle.training.adam import Adam, cosine_decay
from ctmle.training.devices import mean_gradient
from ctmle.training.mlp import Mlp, with_fixed_networks
from ctmle.training.updates import Stage, Step, Trainer, Update, where_first

IMPROVE = Stage("policy", 0, stream=5)

ROUND_STREAM = 1000
"""Distance between the random streams of two rounds."""

NOTHING = float(jnp.finfo(jnp.float32).min)
"""What a policy promises that was not judged yet."""

NEAR, LITTLE = 0.2, 0.01
"""Shares of the reward at the best rest: what a policy may lack if the last round has gained no more than a little."""

STRIDE, STRIDE_MEMORY = 0.1, 0.9
"""An optimist goes so far per update, as a share of its set's radius at the start of a stage, along a running mean of
gradients with this memory."""

JUDGED = 128
"""Imagined episodes that a policy is judged by."""


class Improver(Trainer):
    """Improves a policy in the current world."""

    @abstractmethod
    def feedback(self, state: Any) -> Feedback:
        """Return the current policy's feedback."""

    @abstractmethod
    def values(self, state: Any) -> Values:
        """Return the critic and what it is discounted by."""

    def joined(self, state: Any, world: World) -> Any:
        """Return the state before any data, in a world of this kind."""
        return state


class Critic(eqx.Module):
    """V(t, y): the discounted reward to come under the current policy."""

    net: Mlp
    spec: Spec

    def __call__(self, t: Float[Array, "..."], y: Float[Array, "*batch observed"]) -> Float[Array, "*batch"]:
        return self.net(self.spec.observation.features(y))[..., 0]


class ActorCriticState(eqx.Module):
    """Policy and critic with their optimisers, and the target critic that returns are bootstrapped from."""

    feedback: Feedback
    critic: Critic
    target: Critic
    actor_optimiser: Any
    critic_optimiser: Any
    memory: Memory
    kept: Feedback
    """The policy that acts: the best one so far, as the present world judges it."""
    promise: Float[Array, "2"]
    """Its mean reward in imagined episodes: over all of them, and over their second half."""
    gain: Float[Array, ""]
    """By how much the last round raised the first of these."""
    key: PRNGKeyArray
    favourite: tuple[Float[Array, "..."], Float[Array, "..."]] | None = None
    """In a world with an optimist: its point, and a running mean of the gradient there."""


Inputs = tuple[World, Any, Float[Array, ""], tuple[int, float]]
"""Values that the updates of one compiled call share: the world with fixed networks, where rollouts start, the weight
of the critic in the policy's objective, and the number and length of a rollout's steps."""


@dataclass(frozen=True)
class ActorCritic(Improver):
    """One actor step through the SDE per update, then `critic_steps` critic steps on the points that it visited."""

    hidden: Widths = option((64, 64), "policy_hidden")
    """Hidden widths of the policy (ReLU, tanh output) and of the critic (tanh)."""
    updates: Count = option(400, "policy_updates")
    """[N_pol] Policy updates per episode, or per round."""
    rounds: Count = option(4, "policy_rounds")
    """Most rounds of updates per episode, each with rates that decay anew. No further one follows once the policy is
    `enough`, or near and no longer getting better."""
    enough: Share = option(0.95, "policy_enough")
    """Share of the reward at the best rest that such a policy gets in the second half of imagined episodes."""
    guard: bool = option(True, "keep_best")
    """Act by the best policy so far, judged in imagined episodes, instead of the newest one."""
    horizon: Positive = option(1.0, "policy_horizon")
    """[H_pol] Length of imagined trajectories in seconds."""
    samples: Count | None = option(None, "policy_samples")
    """[H_pol] Length of imagined trajectories in gaps of the schedule; none: `policy_horizon` seconds."""
    step: Positive = option(0.1, "policy_step")
    """Step of imagined trajectories in seconds; with `policy_samples` the longest one."""
    discount_time: Positive = 5.0
    """[tau] The discount is exp(-t / tau), tau in seconds."""
    particles: Count = 100
    """Imagined trajectories per policy update, spread over the ensemble."""
    rate: Positive = option(3e-3, "policy_rate")
    """Learning rate of the policy at the start of each policy stage."""
    final_rate: Share = option(0.1, "policy_final_rate")
    """Rate at the end of the stage as a share of the one at its start (cosine in between)."""
    critic_rate: Positive = 1e-3
    """Learning rate of the critic."""
    critic_steps: Count = 10
    """Critic steps per policy update."""
    critic_batch: Count = 256
    """Imagined points per critic step."""
    target_every: Count = 25
    """Policy updates between two refreshes of the target critic."""
    target_rate: OpenShare | None = 0.05
    """Share by which the target critic moves towards the critic at each policy update; none: it is copied every
    `target_every` updates."""
    gradient_clip: Positive = 10.0
    """Largest norm of a policy or critic gradient."""
    bootstrap_episodes: Count = 1
    """Episodes over which the critic's weight in the policy objective grows to 1."""
    saturation_cost: NonNegative = 0.01
    """Price of saturated controls: small next to any reward; it keeps a policy alive where the reward is flat."""
    starts: Starts = MixedStarts()
    """Where imagined trajectories start."""

    metrics = ("rollout_reach", "rollout_reward", "actor_loss", "actor_gradient", "critic_loss")

    def check(self) -> None:
        if self.samples is None and self.step > self.horizon:
            raise ValueError(f"policy_step {self.step:g} is longer than policy_horizon {self.horizon:g}")

    def init(self, spec: Spec, key: PRNGKeyArray) -> ActorCriticState:
        actor_key, critic_key = jax.random.split(key)
        feedback = init_feedback(spec, actor_key, self.hidden)
        critic = Critic(Mlp((spec.observation.feature_size, *self.hidden, 1), jnp.tanh, critic_key), spec)
        return ActorCriticState(
            feedback=feedback,
            critic=critic,
            target=critic,
            actor_optimiser=self._actor_adam.init(feedback),
            critic_optimiser=self._critic_adam.init(critic),
            memory=Memory.empty(spec, self.particles),
            kept=feedback,
            promise=jnp.full(2, NOTHING),
            gain=jnp.asarray(-NOTHING),
            key=jax.random.fold_in(key, 1),
        )

    def joined(self, state: ActorCriticState, world: World) -> ActorCriticState:
        start = None if world.optimist is None else (world.optimist.start, world.optimist.start)
        gone = None if world.hazard is None else jnp.zeros(self.particles)
        return replace(state, favourite=start, memory=replace(state.memory, gone=gone))

    def begin(self, state: ActorCriticState, context: Context, episode: int) -> ActorCriticState:
        """Find out what starts have to know of a new world, and judge the policy of the last episode in it."""
        key = jax.random.fold_in(state.key, episode)
        state = self.joined(state, context.world)
        memory, promise = self.starts.remembered(context, state.memory, key), jnp.full(2, NOTHING)
        if self.guard and episode > 1:
            promise = self._promise(context, state.kept, state.key)
        return eqx.tree_at(lambda s: (s.memory, s.promise), state, (memory, promise))

    def stages(self, episode: int) -> tuple[Stage, ...]:
        streams = (IMPROVE.stream + ROUND_STREAM * number for number in range(self.rounds))
        return tuple(
            Stage(IMPROVE.name, self.updates, stream, optional=number > 0) for number, stream in enumerate(streams)
        )

    def finish(self, state: ActorCriticState, context: Context) -> ActorCriticState:
        """Keep the newest policy if it promises more than the one that is kept."""
        if not self.guard and self.rounds == 1:
            return eqx.tree_at(lambda s: s.kept, state, state.feedback)
        promise = self._promise(context, state.feedback, state.key, state.favourite)
        gain = promise[0] - state.promise[0]
        if self.guard and not bool(gain >= 0):
            return eqx.tree_at(lambda s: s.gain, state, gain)
        return eqx.tree_at(lambda s: (s.kept, s.promise, s.gain), state, (state.feedback, promise, gain))

    def has_enough(self, state: ActorCriticState) -> bool:
        """Tell whether a policy comes close to the best rest; or near, and the last round has changed little."""
        best, size = float(state.memory.best_reward), float(state.memory.size)
        short = best - float(state.promise[1])
        return short <= (1.0 - self.enough) * size or (short <= NEAR * size and float(state.gain) <= LITTLE * size)

    def _promise(
        self, context: Context, feedback: Feedback, key: PRNGKeyArray, favourite: Any = None
    ) -> Float[Array, "2"]:
        """Imagine episodes under a policy, by the same random numbers for all; return their mean rewards.

        An optimist judges a policy by the model that was chosen for it.
        """
        world = context.world.doubted
        if favourite is not None:
            world = replace(world, sde=world.optimist.sde(favourite[0], world.sde.members))
        particles = max(1, JUDGED // world.sde.members)
        step = step_within(self.step, context.spec.hold)
        steps = max(2, round(context.spec.horizon / step))
        path = imagine(world, context.spec, feedback, key, particles, steps, step)
        return jnp.stack([jnp.mean(path.earned), jnp.mean(path.earned[steps // 2 :])])

    def prepare(self, stage: str, context: Context) -> Inputs:
        world = replace(context.world, sde=with_fixed_networks(context.world.sde))
        bootstrap = jnp.minimum(1.0, context.episode / self.bootstrap_episodes)
        return world, self.starts.prepare(context), bootstrap, self.steps(context.longest_gap, context.spec.hold)

    def update(self, stage: str, state: ActorCriticState, inputs: Inputs, step: Step) -> Update[ActorCriticState]:
        start_key, noise_key, critic_key = jax.random.split(step.key, 3)
        world, starts, bootstrap, (steps, length) = inputs
        members = world.sde.members
        each = self.particles // members
        begin, start = self.starts.sample(starts, state.memory, start_key, members, each, steps * length)
        noise = jax.random.normal(noise_key, (members, steps, *start.shape[1:]))

        def actor_loss(
            chosen: tuple[Feedback, Any], pieces: tuple[Members, Array, Array, Array]
        ) -> tuple[Array, Rollout]:
            (feedback, point), (sde, begin, start, noise) = chosen, pieces
            if point is not None:
                sde = world.optimist.sde(point, len(begin))
            noise, how = jnp.swapaxes(noise, 0, 1), {"step": length, "hold": feedback.spec.hold}
            path = rollout(replace(world, sde=sde), feedback, (begin, start), noise, **how)
            last = bootstrap * state.target(path.times[-1], path.states[-1])
            gained = jnp.mean(returns_to_go(path.rewards, last, length, self.discount_time, path.hazards)[0])
            price = 0.0 if point is None else self.discount_time * world.optimist.cost(point)
            return self.saturation_cost * saturation(feedback.raw(path.states)) - gained + price, path

        chosen = (state.feedback, None if state.favourite is None else state.favourite[0])
        (loss, path), (gradient, slope) = mean_gradient(actor_loss, chosen, (world.sde, begin, start, noise))
        norm = optax.tree.norm(gradient)
        updates, actor_optimiser = self._actor_adam(state.feedback, gradient, norm, state.actor_optimiser, step)
        feedback = eqx.apply_updates(state.feedback, updates)

        last = state.target(path.times[-1], path.states[-1])
        targets = returns_to_go(path.rewards, last, length, self.discount_time, path.hazards)
        points = (path.times.reshape(-1), path.states.reshape(-1, path.states.shape[-1]), targets.reshape(-1))
        critic, critic_optimiser, critic_loss = self._fit_critic(state, points, replace(step, key=critic_key))
        target = self._target(critic, state.target, step)
        memory = state.memory.after(path)
        measured = (jnp.max(jnp.abs(path.states)), jnp.mean(path.rewards), loss, norm, critic_loss)
        state = replace(
            state,
            feedback=feedback,
            critic=critic,
            target=target,
            actor_optimiser=actor_optimiser,
            critic_optimiser=critic_optimiser,
            memory=memory,
            favourite=self._favourite(state.favourite, slope, world, step),
        )
        evidence = where_first(~jnp.isfinite(path.rewards), path.states)
        return state, dict(zip(self.metrics, measured, strict=True)), evidence

    def _favourite(self, favourite: Any, slope: Any, world: World, step: Step) -> Any:
        """Return the optimist's next point, given the slope of the loss at the present one."""
        if favourite is None:
            return None
        point, direction = favourite
        direction = STRIDE_MEMORY * direction - (1 - STRIDE_MEMORY) * slope
        share = STRIDE * cosine_decay(step.index / self.updates, self.final_rate)
        return world.optimist.moved(point, direction, share), direction

    def _target(self, critic: Critic, target: Critic, step: Step) -> Critic:
        """Return the next target critic: a running mean of critics, or a copy every now and then."""
        refreshed = (step.index + 1) % self.target_every == 0

        def moved(new: Any, old: Any) -> Any:
            if not eqx.is_array(new):
                return new
            if self.target_rate is None:
                return jnp.where(refreshed, new, old)
            return old + self.target_rate * (new - old)

        return jax.tree.map(moved, critic, target)

    def _fit_critic(
        self, state: ActorCriticState, points: tuple[Array, Array, Array], step: Step
    ) -> tuple[Critic, Any, Array]:
        """Minimise the mean-squared temporal-difference error on minibatches of visited points."""
        visited = points[0].shape[0]
        arrays, static = eqx.partition(state.critic, eqx.is_array)

        def loss(arrays: Any, batch: tuple[Array, Array, Array]) -> tuple[Array, None]:
            times, states, targets = batch
            return jnp.mean((eqx.combine(arrays, static)(times, states) - targets) ** 2), None

        def body(carry: tuple[Any, Any], batch: tuple[Array, Array, Array]) -> tuple[tuple[Any, Any], Array]:
            arrays, optimiser = carry
            (value, _), gradient = mean_gradient(loss, arrays, batch)
            norm = optax.tree.norm(gradient)
            updates, optimiser = self._critic_adam(arrays, gradient, norm, optimiser, step)
            return (eqx.apply_updates(arrays, updates), optimiser), value

        count = min(self.critic_batch, visited)
        chosen = jax.random.randint(step.key, (self.critic_steps, count), 0, visited)
        times, states, targets = points
        batches = (times[chosen], states[chosen], targets[chosen])
        (arrays, optimiser), losses = jax.lax.scan(body, (arrays, state.critic_optimiser), batches)
        return eqx.combine(arrays, static), optimiser, jnp.mean(losses)

    def feedback(self, state: ActorCriticState) -> Feedback:
        return state.kept

    def values(self, state: ActorCriticState) -> Values:
        return Values(state.critic, state.target, self.discount_time)

    def steps(self, gap: float, hold: float | None = None) -> tuple[int, float]:
        """Return the number of steps of an imagined trajectory and their length in seconds."""
        if hold is not None or self.samples is None:
            seconds = self.horizon if self.samples is None else self.samples * gap
            length = step_within(self.step, hold)
            return max(1, round(seconds / length)), length
        per_gap = max(1, math.ceil(gap / self.step - 1e-6))
        return self.samples * per_gap, gap / per_gap

    @property
    def _actor_adam(self) -> Adam:
        return Adam(self.updates, self.rate, self.final_rate, clip=self.gradient_clip)

    @property
    def _critic_adam(self) -> Adam:
        return Adam(self.updates, self.critic_rate, clip=self.gradient_clip)


def saturation(raw: Float[Array, "..."]) -> Float[Array, ""]:
    """Measure how far tanh outputs are beyond 0.995 of their range, where they have no gradient to come back by."""
    return jnp.mean(jax.nn.relu(jnp.abs(raw) - 3.0) ** 2)


def returns_to_go(
    rewards: Float[Array, "points *batch"],
    last_value: Float[Array, "*batch"],
    step: float,
    discount_time: float,
    hazards: Float[Array, "points *batch"] | None = None,
) -> Float[Array, "points *batch"]:
    """Sum the discounted reward from each point on, plus the discounted value at the end: n-step TD targets.

    With `hazards`, the rates at which episodes end, nothing is earned after the end.
    """
    discount = jnp.exp(-step / discount_time)
    if hazards is not None:
        discount = discount * jnp.exp(-0.5 * step * (hazards[1:] + hazards[:-1]))

    def back(value: Array, inputs: tuple[Array, Array, Array | None]) -> tuple[Array, Array]:
        here, there, own = inputs
        each = discount if own is None else own
        value = 0.5 * step * (here + each * there) + each * value
        return value, value

    own = None if hazards is None else discount
    _, values = jax.lax.scan(back, last_value, (rewards[:-1], rewards[1:], own), reverse=True)
    return jnp.concatenate([values, last_value[None]])
