"""What a plant pays and when its episodes end: learned from data, and counted in imagination."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ctmle.data import Dataset, Recorded, Trajectory
from ctmle.data.starts import with_starts
from ctmle.envs.base import Spec
from ctmle.envs.observation import Observation
from ctmle.models import Context, Members, Values, World
from ctmle.models.learned_reward import LearnedReward
from ctmle.models.learned_survival import Hazard, LearnedSurvival
from ctmle.models.model import SDE
from ctmle.planning import returns_to_go
from ctmle.planning.rollout import rollout

SPEC = Spec(None, None, Observation(2, ()), (-2.0,), (2.0,), 10.0, hold=0.1)
GAP = 0.1


class Wandering(SDE):
    """Pure noise: between two looks it goes along a line on average."""

    def drift(self, y, u):
        return jnp.zeros_like(y)

    def diffusion(self, y, u):
        return 0.1 * jnp.ones_like(y)


class OneWandering(Members):
    """The same as a world of one member."""

    @property
    def members(self) -> int:
        return 1

    @property
    def noisy(self) -> bool:
        return True

    def member(self, number):
        return Wandering()

    def drift(self, y, u):
        return jnp.zeros_like(y)

    def diffusion(self, y, u):
        return 0.1 * jnp.ones_like(y)


def context_with(data: Dataset) -> Context:
    values, world = Values(None, None, 5.0), World(OneWandering(), lambda t, y, u: jnp.zeros(y.shape[:-1]))
    return Context(SPEC, data, world, values, jnp.asarray(1), GAP)


def dataset_of(*trajectories: Trajectory) -> Dataset:
    data = Dataset.empty(trajectories[0], len(trajectories))
    for trajectory in trajectories:
        data = data.add(trajectory)
    return data


def wandered(count: int, seed: int = 0, paid=None, ended: bool = False) -> Trajectory:
    """Return looks at a random walk under random held controls; `paid` gives the rate of what the plant pays."""
    random = np.random.default_rng(seed)
    times = GAP * np.arange(count, dtype=np.float32)
    states = np.cumsum(0.3 * random.normal(size=(count, 2)), axis=0).astype(np.float32)
    controls = random.uniform(-2, 2, size=(count, 1)).astype(np.float32)
    rewards = None
    if paid is not None:
        shares = np.linspace(0.0, 1.0, 101)[:, None, None]
        line = (1 - shares) * states[:-1] + shares * states[1:]
        rewards = np.mean(paid(line, controls[:-1]), axis=0) * GAP + 0.002 * random.normal(size=count - 1)
    drive = Recorded(jnp.asarray(times), jnp.asarray(controls))
    return Trajectory(times, states, controls, drive, rewards=rewards, ended=ended)


def rate(states, controls):
    return 1.0 - 0.5 * states[..., 0] ** 2 + 0.3 * states[..., 1] - 0.2 * controls[..., 0] ** 2


def test_a_dataset_keeps_what_was_paid_and_how_episodes_ended():
    first, second = wandered(5, 0, rate, ended=True), wandered(9, 1)
    data = dataset_of(first, second)
    back, unpaid = data.trajectory(0), data.trajectory(1)
    np.testing.assert_allclose(np.asarray(back.rewards), np.asarray(first.rewards), rtol=1e-6)
    assert (back.ended, unpaid.ended, unpaid.rewards) == (True, False, None)
    np.testing.assert_array_equal(data.paid, [True, False])


def test_a_reward_is_learned_from_its_integrals():
    """A quadratic, the square of the control included, from 400 noisy integrals."""
    seen = wandered(400, 0, rate)
    part, context = LearnedReward(waves=20, steps=30), context_with(dataset_of(seen))
    state = part.begin(part.init(SPEC, jax.random.key(0)), context, 1)
    states, controls = jnp.asarray(seen.states), jnp.asarray(seen.controls)
    found = part.unit(state) * part.reward(state)(jnp.zeros(400), states, controls)
    truth = rate(np.asarray(states), np.asarray(controls))
    assert np.sqrt(np.mean((np.asarray(found) - truth) ** 2)) < 0.05 * np.std(truth)
    assert float(part.unit(state)) == pytest.approx(np.ptp(np.append(np.asarray(seen.rewards) / GAP, 0.0)), rel=1e-4)


def test_without_rewards_there_is_nothing_to_learn_from():
    part, context = LearnedReward(), context_with(dataset_of(wandered(5)))
    with pytest.raises(ValueError, match="no trajectory has rewards to learn from: give each its `rewards`"):
        part.begin(part.init(SPEC, jax.random.key(0)), context, 1)


def test_ends_are_learned_from_episodes_that_ended():
    """Episodes end where the first coordinate is beyond 1: the rate is high there and low before."""
    episodes = []
    for seed in range(40):
        seen = wandered(60, seed)
        out = np.flatnonzero(np.abs(seen.states[1:, 0]) > 1.0)
        last = out[0] + 1 if out.size else 59
        cut = slice(0, max(2, last + 1))
        drive = Recorded(jnp.asarray(seen.times[cut]), jnp.asarray(seen.controls[cut]))
        episodes.append(Trajectory(seen.times[cut], seen.states[cut], seen.controls[cut], drive, ended=bool(out.size)))
    part = LearnedSurvival()
    never = part.begin(part.init(SPEC, jax.random.key(0)), context_with(dataset_of(wandered(20))), 1)
    hazard = part.begin(part.init(SPEC, jax.random.key(0)), context_with(dataset_of(*episodes)), 1)
    inside, outside = jnp.asarray([[0.0, 1.0], [0.6, 0.0], [-0.6, -1.0]]), jnp.asarray([[1.4, 0.0], [-1.4, 1.0]])
    rates = [np.asarray(part.hazard(hazard)(jnp.zeros(len(y)), y, jnp.zeros((len(y), 1)))) for y in (inside, outside)]
    assert np.all(rates[0] < 0.5)
    assert np.all(rates[1] > 5.0)
    np.testing.assert_array_equal(part.hazard(never)(jnp.zeros(2), outside, jnp.zeros((2, 1))), 0.0)


def test_nothing_is_earned_after_the_end():
    """With a constant reward b, rate h and value V the return is b / k (1 - exp(-k T)) + V exp(-k T), k = 1/tau + h."""
    steps, step, tau, h = 2000, 0.001, 5.0, 0.7
    k, rewards = 1 / tau + h, jnp.full((steps + 1, 1), 2.0)
    found = returns_to_go(rewards, jnp.asarray([3.0]), step, tau, jnp.full((steps + 1, 1), h))[0, 0]
    seconds = steps * step
    assert float(found) == pytest.approx(2 / k * (1 - np.exp(-k * seconds)) + 3 * np.exp(-k * seconds), rel=1e-4)
    hazard = Hazard(
        jnp.zeros(6), jnp.ones(2), jnp.asarray(np.log(2) / h, jnp.float32), jnp.asarray(True), SPEC.observation
    )
    world = World(OneWandering(), lambda t, y, u: jnp.full(y.shape[:-1], 2.0), hazard)
    start = (jnp.zeros((1, 1)), jnp.zeros((1, 1, 2)))
    path = rollout(world, lambda t, y: y[..., :1], start, jnp.zeros((100, 1, 1, 2)), step=0.01)
    np.testing.assert_allclose(path.alive[:, 0, 0], np.exp(-h * 0.01 * np.arange(101)), rtol=1e-4)
    np.testing.assert_allclose(path.earned, 2.0 * path.alive, rtol=1e-6)


def test_starts_that_are_not_known_are_those_that_were_seen():
    data = dataset_of(wandered(5, 0), wandered(6, 1))
    spec = with_starts(SPEC, data)
    drawn = np.asarray(jax.vmap(spec.reset)(jax.random.split(jax.random.key(0), 200)))
    firsts = np.stack([data.trajectory(row).states[0] for row in range(2)])
    nearest = np.abs(drawn[:, None] - firsts).sum(axis=-1)
    np.testing.assert_allclose(nearest.min(axis=1), 0.0, atol=1e-6)
    assert 60 < np.sum(nearest.argmin(axis=1) == 0) < 140
