"""How good a policy is: test trajectories on a plant, or imagined ones in the agent's world."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ctmle.envs.base import Env, Spec
from ctmle.lab.experiment import Evaluation, SuccessRule
from ctmle.lab.systems import name_of
from ctmle.models.flow import deviation
from ctmle.models.world import World
from ctmle.planning.policy import Feedback
from ctmle.planning.rollout import imagine, step_within
from ctmle.plants.base import Controller, Plant
from ctmle.plants.simulated import SimulatedSDE
from ctmle.schedules.grid import Equidistant
from ctmle.training.failures import NotFinite


class Score(eqx.Module):
    """Mean reward after the warm-up of each test trajectory (rule return: its return), and the lowest reward of each.

    `reached` says of each whether it was at the goal all the time after the warm-up, if the system has a goal.
    """

    each: np.ndarray
    lowest: np.ndarray
    success_at: float | None
    rule: SuccessRule
    reached: np.ndarray | None = None

    @property
    def mean(self) -> float:
        return float(self.each.mean())

    @property
    def standard_error(self) -> float:
        return float(self.each.std(ddof=1) / len(self.each) ** 0.5) if len(self.each) > 1 else 0.0

    @property
    def lowest_reward(self) -> float:
        return float(self.lowest.min())

    @property
    def success(self) -> bool:
        if self.success_at is None:
            return False
        judged = {"every": self.lowest_reward, "goal": self.success_share}
        return judged.get(self.rule, self.mean) >= self.success_at

    @property
    def success_share(self) -> float:
        """Share of the trajectories that succeed by themselves: a mean of 0.9 can hide failures."""
        if self.rule == "goal":
            assert self.reached is not None  # Evaluation.fits
            return float(self.reached.mean())
        judged = self.lowest if self.rule == "every" else self.each
        return 0.0 if self.success_at is None else float((judged >= self.success_at).mean())


def evaluate(
    plant: Plant | Env, controller: Controller, key: PRNGKeyArray, evaluation: Evaluation = Evaluation()
) -> Score:
    """Run `controller` on test trajectories from the start and average the reward after the warm-up.

    The reward is taken every `test_gap` seconds, or at every tick of a controller that decides its looks. (Such a
    controller sees the time to go, so its tests last as long as the horizon.)
    """
    plant = SimulatedSDE(plant) if isinstance(plant, Env) else plant
    spec = plant.spec
    evaluation.fits(spec, _owner(plant))
    looks = Equidistant(evaluation.test_gap, random_looks=False).looks(key, evaluation.test_seconds or spec.horizon)
    tests = plant.run_many(controller, looks, jax.random.split(key, evaluation.test_trajectories))
    if evaluation.rule == "return":
        paid = np.asarray(tests.rewards, np.float64)
        return Score(paid.sum(axis=1), paid.min(axis=1), evaluation.success, evaluation.rule)
    rewards = np.asarray(rewards_of(spec, tests.states, tests.controls), dtype=np.float64)
    check_rewards(plant, np.asarray(tests.states, np.float64), rewards, "in a test trajectory")
    after = np.asarray(tests.times)[0] >= evaluation.warm_up
    counted = rewards[:, after]
    reached = None
    if spec.state_goal is not None:
        reached = np.all(np.asarray(eqx.filter_jit(Spec.reached)(spec, tests.states))[:, after], axis=1)
    return Score(counted.mean(axis=1), counted.min(axis=1), evaluation.success, evaluation.rule, reached)


def check_rewards(plant: Plant, states: np.ndarray, rewards: np.ndarray, where: str) -> None:
    """Raise NotFinite for the first reward that is NaN or inf, with the observed state it belongs to."""
    bad = np.flatnonzero(~np.isfinite(rewards).reshape(-1))
    if bad.size:
        raise NotFinite(
            f"{_owner(plant)}.reward", where, "fix that method", states.reshape(-1, states.shape[-1])[bad[0]]
        )


def _owner(plant: Plant) -> str:
    """Name the class to mend if something is wrong with a plant."""
    return name_of(plant.env if isinstance(plant, SimulatedSDE) else plant)


def imagined_score(
    world: World, spec: Spec, feedback: Feedback, key: PRNGKeyArray, evaluation: Evaluation, *, step: float
) -> float:
    """Return the score that the agent expects: the same measure on trajectories imagined in its world."""
    particles = max(1, evaluation.test_trajectories // world.sde.members)
    step = step_within(step, spec.hold)
    steps = round((evaluation.test_seconds or spec.horizon) / step)
    path = imagine(world, spec, feedback, key, particles, steps, step)
    if evaluation.rule == "return":
        unit = 1.0 if world.unit is None else float(world.unit)
        return float(jnp.mean(jnp.sum(path.earned[:-1], axis=0))) * step * unit
    return float(jnp.mean(path.earned[round(evaluation.warm_up / step) :]))


@eqx.filter_jit
def rewards_of(
    spec: Spec, states: Float[Array, "*batch observed"], controls: Float[Array, "*batch control"]
) -> Float[Array, "*batch"]:
    """Compute rewards in one compiled call."""
    return spec.reward(states, controls)


@eqx.filter_jit
def learned_diffusion(
    world: World, y: Float[Array, "looks observed"], u: Float[Array, "looks control"]
) -> Float[Array, " observed"]:
    """Average the learned noise level sqrt(diag(gg')) over members and looks."""
    members = world.sde.members
    copies = jnp.broadcast_to(y, (members, *y.shape)), jnp.broadcast_to(u, (members, *u.shape))
    return jnp.mean(deviation(world.sde.diffusion(*copies), copies[0]), axis=(0, 1))


@eqx.filter_jit
def observed_diffusion(
    env: Env, spec: Spec, y: Float[Array, "looks observed"], u: Float[Array, "looks control"]
) -> Array:
    """Average the true noise level, in the coordinates that the agent sees, over looks: what it should learn."""

    def one(y: Array, u: Array) -> Array:
        x = spec.observation.decode(y)
        slopes = jax.jacfwd(spec.observation.encode)(x)
        g = env.diffusion(x, u)
        return jnp.sqrt(jnp.sum((slopes @ g if g.ndim > x.ndim else slopes * g) ** 2, axis=-1))

    return jnp.mean(jax.vmap(one)(y, u), axis=0)
