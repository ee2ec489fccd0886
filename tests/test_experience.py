"""What a tested policy was trained on, in the log and in every place that counts it."""

import numpy as np
import pytest
from tiny import run_experiment

from ctmle.lab.run import Run


def records_of(agent: str, **options) -> list[dict]:
    run = Run(run_experiment(agent, **options))
    return [record for _, record in run.episodes(run.init())]


@pytest.mark.parametrize("agent", ["ct-mle basis", "sac-tacos"])
def test_experience_is_the_data_before_the_episode(agent):
    """Two initial trajectories of 4 s; the trajectory of an episode belongs to the experience of the next one."""
    records = records_of(agent)
    assert [record["experience_seconds"] for record in records] == pytest.approx([8.0, 12.0])
    assert records[1]["experience_looks"] == records[0]["looks"]
    assert records[0]["experience_looks"] < records[0]["looks"]


def test_the_looks_of_a_schedule_are_counted():
    """33 grid looks and 32 random ones per trajectory."""
    records = records_of("ct-mle basis")
    assert [record["experience_looks"] for record in records] == [130, 195]


def test_first_trajectories_may_have_a_length_of_their_own():
    records = records_of("ct-mle basis", first_seconds=1.5)
    assert [record["experience_seconds"] for record in records] == pytest.approx([3.0, 7.0])


def test_trajectories_may_become_longer_up_to_the_horizon():
    records = records_of("ct-mle basis", trajectory_seconds=1.0, growth=2.5, episodes=4)
    lengths = [1.0, 2.5, 4.0, 4.0]  # the horizon is 4 s
    assert [record["experience_seconds"] for record in records] == pytest.approx([2.0, 3.0, 5.5, 9.5])
    assert records[-1]["looks"] == pytest.approx(sum(2 * 8 * length + 1 for length in [1.0, 1.0, *lengths]), abs=1)


def test_exploring_trajectories_count_from_the_next_episode_on():
    records = records_of("ct-mle basis", exploring_trajectories=1)
    assert [record["experience_seconds"] for record in records] == pytest.approx([8.0, 16.0])


def test_learning_anew_when_the_data_has_doubled_skips_what_would_change_little():
    """From 2 trajectories at first, the agent learns anew with 4, then with 8."""
    records = records_of("ct-mle basis", switching="data-doubled", episodes=8)
    learned_from = [round(record["experience_seconds"] / 4.0) for record in records]
    assert learned_from == [2, 2, 4, 4, 4, 4, 8, 8]
    fitted = ["policy_seconds" in record for record in records]
    assert fitted == [True, False, True, False, False, False, True, False]
    assert all(np.isfinite(record["score"]) for record in records)


def test_tests_every_other_episode_know_the_data_of_the_last_one():
    every, other = (records_of("sac-tacos", episodes=2, test_every=n) for n in (1, 2))
    assert other[-1]["experience_seconds"] == pytest.approx(every[-1]["experience_seconds"])
