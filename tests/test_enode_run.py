"""Whole runs of ENODE: records, resuming, its own rule of success, bad settings, presets."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_agent import same
from test_run import trained, without_seconds
from tiny import run_experiment

from ctmle.agents import ENODE
from ctmle.envs import Env
from ctmle.lab.evaluate import Score, evaluate
from ctmle.lab.experiment import Evaluation, start
from ctmle.lab.report.comparison import compare
from ctmle.lab.report.results import read_result
from ctmle.lab.run import Run
from ctmle.lab.session import save_checkpoint
from ctmle.lab.storage import RunFolder
from ctmle.planning import Policy, init_feedback, silent_signal
from ctmle.plants import SimulatedSDE


def enode(**options):
    return run_experiment("enode", random_looks=False, **options)


def test_resuming_from_any_moment_continues_identically(tmp_path):
    experiment = enode(schedule="exponential")
    run = Run(experiment)
    moments = list(run.steps(run.init()))
    expected = [without_seconds(m.record) for m in moments if m.record]
    folder = RunFolder.create(experiment.changed({"out": str(tmp_path / "run")}))
    for i, moment in enumerate(moments):
        if not moment.resumable:
            continue
        records = [m.record for m in moments[: i + 1] if m.record]
        save_checkpoint(folder, experiment, moment.state, folder.write_log(records))
        again = Run(experiment)
        resumed = again.restore(folder.read_checkpoint())
        assert same(resumed, moment.state)
        if i % 3:  # from every third one, all the rest of the run as well
            continue
        rest = list(again.steps(resumed))
        assert [without_seconds(r) for r in records + [m.record for m in rest if m.record]] == expected
        if rest:
            assert same(rest[-1].state, moments[-1].state)


def test_records_have_the_fields_of_every_agent_and_none_of_a_diffusion(tmp_path):
    folders = []
    for seed in (0, 1):
        folder, records = trained(enode(out=str(tmp_path / f"run{seed}"), seed=seed))
        folders.append(folder)
        assert folder.read_metrics() == records
    shared = {"episode", "score", "score_se", "success", "success_share", "lowest_reward", "episode_score", "looks",
              "mean_gap", "setbacks", "imagined_score", "experience_seconds", "experience_looks"}  # fmt: skip
    own = {"dynamics_loss", "dynamics_gradient", "prediction_error", "observation_noise", "actor_loss",
           "actor_gradient", "critic_loss", "rollout_reward", "rollout_reach"}  # fmt: skip
    for record, phases in zip(records, (("matching", "dynamics", "policy"), ("dynamics", "policy")), strict=True):
        seconds = {f"{phase}_seconds" for phase in (*phases, "test")}
        assert record.keys() == shared | own | seconds
    assert [record["looks"] for record in records] == [4 * 33, 6 * 33]
    assert [record["experience_looks"] for record in records] == [2 * 33, 4 * 33]
    panel = compare([read_result(str(folder.path)) for folder in folders])[0]
    assert panel.curves[0].agent == "enode"
    assert panel.curves[0].seeds == (0, 1)


def test_its_own_rule_of_success_asks_for_every_reward():
    each, lowest = np.array([0.95, 0.99]), np.array([0.85, 0.7])
    assert Score(each, lowest, 0.9, "mean").success
    assert Score(each, lowest, 0.9, "mean").success_share == 1.0
    assert not Score(each, lowest, 0.8, "every").success
    assert Score(each, lowest, 0.8, "every").success_share == 0.5
    assert Score(each, lowest, 0.7, "every").success
    assert Score(each, lowest, 0.7, "every").lowest_reward == 0.7


class Clock(Env):
    """dx = dt with a reward that fades as x grows."""

    state_names: tuple[str, ...] = eqx.field(static=True, default=("x",))
    angles: tuple[int, ...] = eqx.field(static=True, default=())
    control_low: tuple[float, ...] = eqx.field(static=True, default=(-1.0,))
    control_high: tuple[float, ...] = eqx.field(static=True, default=(1.0,))
    horizon: float = eqx.field(static=True, default=4.0)

    def drift(self, x, u):
        return jnp.ones_like(x)

    def diffusion(self, x, u):
        return jnp.zeros_like(x)

    def reward(self, x, u):
        return jnp.exp(-0.1 * x[0])

    def reset(self, key):
        return jnp.zeros(1)


@pytest.mark.parametrize("seconds", [None, 12.0])
def test_tests_can_last_longer_than_an_episode(seconds):
    env, config = Clock(), Evaluation(test_seconds=seconds, rule="every", success=0.5, test_trajectories=2)
    idle = Policy(init_feedback(env.spec, jax.random.key(0), (4,)), silent_signal(env.spec, 3), jnp.zeros(()))
    score, end = evaluate(SimulatedSDE(env, 0.05), idle, jax.random.key(1), config), seconds or 4.0
    np.testing.assert_allclose(score.lowest, np.exp(-0.1 * end), rtol=1e-4)
    np.testing.assert_allclose(score.each, np.mean(np.exp(-0.1 * np.arange(3.0, end + 0.01, 0.05))), rtol=1e-4)
    assert score.success == (end == 4.0)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"dynamics_length": 1}, "dynamics_length 1 leaves no look to predict"),
        ({"noise_floor": 0.4}, "noise_floor 0.4 must be below noise_level 0.37"),
        ({"noise_level": 0.0}, "noise_level must be a positive number"),
        ({"exploring_strength": 2.0}, "strength must be between 0 and 1"),
        ({"exploring_trajectories": -1}, "per_episode must be a whole number of at least 0"),
        ({"particles": 1}, "particles 1 is fewer than one for each of the 2"),
    ],
)
def test_settings_that_cannot_work_are_named(changes, complaint):
    with pytest.raises(ValueError, match=complaint):
        enode(**changes)


def test_presets_say_what_they_are():
    default = start("pendulum", "enode")
    assert default.agent == ENODE()
    settings = default.settings
    assert (settings["gap"], settings["random_looks"], settings["schedule"]) == (0.1, False, "equidistant")
    assert (settings["dynamics_updates"], settings["policy_updates"]) == (1250, 400)
    assert start("cartpole-swingup", "enode").settings["exploring_trajectories"] == 2
    paper = start("acrobot", "enode", "paper").settings
    assert (paper["noise"], paper["initial_trajectories"], paper["observation"]) == ("fixed", 7, "trig")
    assert (paper["policy_updates"], paper["policy_rounds"], paper["keep_best"]) == (250, 1, False)
    assert (paper["pool_starts"], paper["rest_starts"], paper["kinematics"]) == (0.0, 0.0, False)
    for environment in ("pendulum", "cartpole", "cartpole-swingup", "acrobot", "linear-quadratic"):
        for name in ("default", "paper", "quick"):
            start(environment, "enode", name)
