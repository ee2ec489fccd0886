"""What we saw: padding, growth, and that sampled pairs are pairs of looks that really followed each other."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st

from ctmle.data import ClosedLoop, Dataset, Recorded, Trajectory, sample_transitions as sample_eagerly
from ctmle.envs import LinearQuadratic

# Compiled as a whole: one by one, their operations would be hundreds of small programs.
sample_transitions = eqx.filter_jit(sample_eagerly)

pytestmark = pytest.mark.usefixtures("strict_dtypes")


def trajectory(looks: int, mark: float, random: bool = False, policy: float | None = None) -> Trajectory:
    """Looks at times 0, 1, 2, ... whose state is (mark, time)."""
    times = jnp.arange(looks, dtype=jnp.float32)
    states = jnp.stack([jnp.full(looks, mark), times], axis=1)
    return Trajectory(times, states, jnp.full((looks, 1), mark), jnp.asarray(policy or mark), random)


def dataset(lengths: list[int], random: bool = False, capacity: int = 2, room: int | None = None) -> Dataset:
    """Trajectories of these lengths. With room for so many looks, arrays have one shape whatever the lengths are."""
    first = trajectory(room or lengths[0], 0.0, random)
    data = Dataset.empty(first, capacity)
    for i, looks in enumerate(lengths):
        data = data.add(trajectory(looks, float(i), random))
    return data


def test_counts_every_look_once_and_grows_past_its_capacity():
    data = dataset([5, 9, 3, 9, 7], capacity=2)
    assert int(data.count) == 5
    assert int(data.looks) == 33
    assert data.capacity == 8
    assert int(data.real.sum()) == 33
    np.testing.assert_array_equal(data.states[5:14, 1], np.arange(9))
    np.testing.assert_array_equal(data.drives.policies[:5], np.arange(5))


@given(st.lists(st.sampled_from([7, 9, 15]), min_size=1, max_size=3), st.integers(0, 99), st.sampled_from([1, 3]))
def test_pairs_without_random_looks(lengths, seed, length):
    data = dataset(lengths, capacity=4, room=15)
    batch = sample_transitions(data, jax.random.key(seed), subsequences=6, length=length, chained=False)
    assert batch.gap.shape == (6, length)
    np.testing.assert_array_equal(batch.gap, 1.0)
    np.testing.assert_array_equal(batch.y_next[..., 1] - batch.y[..., 1], 1.0)
    np.testing.assert_array_equal(batch.y[..., 0], batch.y_next[..., 0])
    np.testing.assert_array_equal(batch.drives.policies[:, None] + 0 * batch.t, batch.y[..., 0])
    longest = np.asarray(lengths)[np.asarray(batch.drives.policies, int)] - 1
    assert np.all(np.asarray(batch.t) + 1 <= longest[:, None])
    np.testing.assert_array_equal(np.diff(batch.t, axis=1), 1.0)


@given(st.lists(st.sampled_from([7, 9, 15]), min_size=1, max_size=3), st.integers(0, 99), st.booleans())
def test_pairs_with_random_looks(lengths, seed, chained):
    """Even looks are the grid's, odd ones random."""
    data = dataset(lengths, random=True, capacity=4, room=15)
    batch = sample_transitions(data, jax.random.key(seed), subsequences=4, length=3, chained=chained)
    start, end = np.asarray(batch.y[..., 1]), np.asarray(batch.y_next[..., 1])
    assert start.shape == (4, 6)
    np.testing.assert_array_equal(batch.gap, end - start)
    if chained:
        np.testing.assert_array_equal(end - start, 1)
        assert np.all(start[:, :3] % 2 == 0)
        np.testing.assert_array_equal(start[:, 3:], end[:, :3])
    else:
        assert np.all(start % 2 == 0)
        np.testing.assert_array_equal(end[:, :3] - start[:, :3], 2)
        np.testing.assert_array_equal(end[:, 3:] - start[:, 3:], 1)


def test_every_gap_of_every_trajectory_is_drawn():
    data = dataset([6, 9], capacity=1)  # grows, in both directions
    batch = sample_transitions(data, jax.random.key(0), subsequences=400, length=1, chained=False)
    drawn = {(float(a), float(b)) for a, b in np.asarray(batch.y).reshape(-1, 2)}
    assert drawn == {(0.0, float(t)) for t in range(5)} | {(1.0, float(t)) for t in range(8)}


@given(
    st.lists(st.sampled_from([2, 3, 4, 9]), min_size=1, max_size=3),
    st.lists(st.sampled_from([3, 5, 11]), min_size=1, max_size=3),
    st.integers(0, 99),
    st.booleans(),
)
def test_trajectories_shorter_than_a_subsequence_give_the_pairs_that_they_have(plain, alternating, seed, chained):
    for lengths, random in ((plain, False), (alternating, True)):
        data = dataset(lengths, random=random, capacity=4, room=15)
        batch = sample_transitions(data, jax.random.key(seed), subsequences=5, length=6, chained=chained)
        assert np.all(np.asarray(batch.gap) >= 1.0)
        np.testing.assert_array_equal(batch.y_next[..., 1] - batch.y[..., 1], batch.gap)
        longest = np.asarray(lengths)[np.asarray(batch.drives.policies, int)] - 1
        assert np.all(np.asarray(batch.y_next[..., 1]) <= longest[:, None])


def test_trajectories_that_do_not_fit_are_refused():
    data = dataset([5])
    with pytest.raises(ValueError, match="random looks or without"):
        data.add(trajectory(5, 1.0, random=True))
    other = Trajectory(jnp.zeros(3), jnp.zeros((3, 3)), jnp.zeros((3, 1)), jnp.asarray(0.0))
    with pytest.raises(ValueError, match="3 observed coordinates"):
        data.add(other)
    stranger = Trajectory(jnp.zeros(3), jnp.zeros((3, 2)), jnp.zeros((3, 1)), (jnp.zeros(1), jnp.zeros(1)))
    with pytest.raises(ValueError, match="another kind of policy"):
        data.add(stranger)


class Doubling(eqx.Module):
    """u = gain * y."""

    gain: jax.Array

    def __call__(self, t, y):
        return self.gain * y


def test_a_recorded_drive_gives_the_piece_that_acts_whatever_the_state():
    drive = Recorded(jnp.asarray([0.0, 0.5, 2.0]), jnp.asarray([[1.0], [2.0], [3.0]]))
    times = jnp.asarray([[-1.0, 0.0, 0.49], [0.5, 1.9, 7.0]])
    for state in (0.0, 9.0):
        found = drive(times, jnp.full((2, 3, 2), state))
        np.testing.assert_array_equal(found[..., 0], [[1.0, 1.0, 1.0], [2.0, 2.0, 3.0]])


def test_a_closed_loop_follows_the_state_by_its_policy():
    y = jnp.asarray([[1.0], [-2.0]])
    np.testing.assert_array_equal(ClosedLoop(Doubling(jnp.asarray(3.0)))(jnp.zeros(2), y), 3.0 * y)


def test_a_trajectory_wraps_a_policy_and_keeps_a_drive():
    looks = (jnp.arange(2.0), jnp.zeros((2, 1)), jnp.zeros((2, 1)))
    policy, recorded = Doubling(jnp.asarray(3.0)), Recorded(looks[0], looks[2])
    wrapped = Trajectory(*looks, policy)
    assert isinstance(wrapped.drive, ClosedLoop)
    assert wrapped.policy is policy
    assert Trajectory(*looks, recorded).drive is recorded
    assert Trajectory(*looks, recorded).policy is None
    assert Trajectory(*looks).drive is None


def test_a_dataset_refuses_a_trajectory_without_a_drive():
    looks = Trajectory(jnp.arange(5.0), jnp.zeros((5, 2)), jnp.zeros((5, 1)))
    with pytest.raises(ValueError, match="does not say what drove it: pass the policy, or Recorded"):
        dataset([5]).add(looks)


def recorded_trajectory(looks: int, mark: float, pieces: int) -> Trajectory:
    """Looks at times 0, 1, 2, ... under a control that is mark + k from the k-th piece on."""
    begins = jnp.linspace(0.0, looks - 1.0, pieces, endpoint=False)
    drive = Recorded(begins, mark + jnp.arange(pieces, dtype=jnp.float32)[:, None])
    plain = trajectory(looks, mark)
    return Trajectory(plain.times, plain.states, drive(plain.times, plain.states), drive)


class Constant(eqx.Module):
    """u = value, whatever the state."""

    value: jax.Array

    def __call__(self, t, y):
        return jnp.broadcast_to(self.value, (*t.shape, 1))


SPEC = dataclasses.replace(LinearQuadratic().spec, control_low=(-1e6,), control_high=(1e6,))


@given(st.lists(st.tuples(st.sampled_from([4, 9, 15]), st.booleans()), min_size=1, max_size=4), st.integers(0, 99))
def test_recorded_and_closed_loop_episodes_each_give_the_control_that_acted(episodes, seed):
    """Also at both ends of a gap, where the control of the gap counts and not that of its neighbours."""
    data: Dataset | None = None
    drives = []
    for i, (looks, recorded) in enumerate(episodes):
        mark = 100.0 * (i + 1)
        episode = recorded_trajectory(looks, mark, 2 * looks) if recorded else trajectory(looks, mark)
        episode = eqx.tree_at(
            lambda e: e.drive, episode, episode.drive if recorded else ClosedLoop(Constant(jnp.asarray(mark)))
        )
        data = (Dataset.empty(episode, 1) if data is None else data).add(episode)
        drives.append(episode.drive)
    assert data is not None
    batch = sample_transitions(data, jax.random.key(seed), subsequences=6, length=3, chained=False)
    rows = np.asarray(batch.y[:, 0, 0]).astype(int) // 100 - 1
    shares = jnp.asarray([0.0, 0.3, 0.999])
    times = (batch.t[..., None] + batch.gap[..., None] * shares).reshape(6, -1)
    found = batch.drives.control(SPEC)(times, jnp.zeros((*times.shape, 2)))
    at_end = batch.drives.control(SPEC)(batch.t + batch.gap, batch.y_next)
    for group, row in enumerate(rows):
        expected = drives[row](times[group], jnp.zeros((times.shape[1], 2)))
        np.testing.assert_array_equal(found[group], expected)
        np.testing.assert_array_equal(at_end[group, :, 0], expected.reshape(-1, 3)[:, -1])


@pytest.mark.parametrize("recorded", [True, False])
def test_a_trajectory_comes_back_as_it_was_added(recorded):
    data = dataset([5, 7])
    added = recorded_trajectory(6, 50.0, 9) if recorded else trajectory(6, 50.0)
    back = data.add(added).add(trajectory(3, 60.0)).trajectory(2)
    assert jax.tree.structure(back) == jax.tree.structure(added)
    for ours, theirs in zip(jax.tree.leaves(back), jax.tree.leaves(added), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_gaps_do_not_cross_episodes():
    data = dataset([3, 2, 4], capacity=4)
    follows = np.asarray(data.follows)
    np.testing.assert_array_equal(np.flatnonzero(follows), [0, 1, 3, 5, 6, 7])
