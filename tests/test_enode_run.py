"""Whole runs of ENODE: records, resuming, its own rule of success, bad settings, presets."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_agent import same
from test_run import without_seconds
from tiny import ODE, run_config

from ctmle.checks import check_config
from ctmle.config import ENODEConfig, EvaluationConfig, preset
from ctmle.envs import Env
from ctmle.lab.evaluate import Score, evaluate
from ctmle.lab.report.compare import compare
from ctmle.lab.run import Run
from ctmle.lab.storage import RunFolder
from ctmle.lab.sweeps.result import read_result
from ctmle.planning import Policy, init_feedback, silent_signal


def enode_config(**changes):
    return run_config(agent="enode", learner=ODE, random_looks=False, **changes)


def test_resuming_from_any_moment_continues_identically(tmp_path):
    config = enode_config(grid="exponential")
    run = Run(config)
    moments = list(run.steps(run.init()))
    expected = [without_seconds(m.record) for m in moments if m.record]
    folder = RunFolder.create(replace(config, out=str(tmp_path / "run")))
    for i, moment in enumerate(moments):
        if not moment.resumable:
            continue
        records = [m.record for m in moments[: i + 1] if m.record]
        run.save_checkpoint(folder, moment.state, records)
        again = Run(config)
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
        config = enode_config(out=str(tmp_path / f"run{seed}"), seed=seed)
        folders.append(RunFolder.create(config))
        records = Run(config).train(folders[-1])
        assert folders[-1].read_metrics() == records
    shared = {"episode", "score", "score_se", "success", "success_share", "lowest_reward", "episode_score", "looks",
              "mean_gap", "setbacks", "imagined_score"}  # fmt: skip
    own = {"dynamics_loss", "dynamics_gradient", "prediction_error", "observation_noise", "actor_loss",
           "actor_gradient", "critic_loss", "rollout_reward", "rollout_reach"}  # fmt: skip
    for record, phases in zip(records, (("matching", "dynamics", "policy"), ("dynamics", "policy")), strict=True):
        seconds = {f"{phase}_seconds" for phase in (*phases, "test")}
        assert record.keys() == shared | own | seconds
    assert [record["looks"] for record in records] == [4 * 33, 6 * 33]
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
    env, config = Clock(), EvaluationConfig(test_seconds=seconds, rule="every", success=0.5, test_trajectories=2)
    idle = Policy(init_feedback(env.spec, jax.random.key(0), (4,)), silent_signal(env.spec, 3), jnp.zeros(()))
    score, end = evaluate(env, idle, jax.random.key(1), config, step=0.05), seconds or 4.0
    np.testing.assert_allclose(score.lowest, np.exp(-0.1 * end), rtol=1e-4)
    np.testing.assert_allclose(score.each, np.mean(np.exp(-0.1 * np.arange(3.0, end + 0.01, 0.05))), rtol=1e-4)
    assert score.success == (end == 4.0)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"dynamics_length": 1}, "--dynamics-length 1 leaves no look to predict"),
        ({"noise_floor": 0.4}, "--noise-floor 0.4 must be below --noise-level 0.37"),
        ({"noise_level": 0.0}, "--noise-level must be a positive number"),
        ({"exploring_strength": 2.0}, "--exploring-strength must be between 0 and 1"),
        ({"exploring_trajectories": -1}, "--exploring-trajectories must be a whole number of at least 0"),
        ({"particles": 1}, "--particles 1 is fewer than one for each of the 2"),
    ],
)
def test_settings_that_cannot_work_are_named(changes, complaint):
    with pytest.raises(ValueError, match=complaint):
        check_config(replace(enode_config(), learner=replace(ODE, **changes)))


def test_presets_say_what_they_are():
    default = preset("pendulum", "default", "enode")
    assert default.learner == ENODEConfig()
    assert (default.gap, default.random_looks, default.grid) == (0.1, False, "equidistant")
    assert (default.learner.dynamics_updates, default.learner.policy_updates) == (1250, 250)
    assert preset("cartpole-swingup", "default", "enode").learner.exploring_trajectories == 2
    paper = preset("acrobot", "paper", "enode")
    assert (paper.learner.noise, paper.learner.initial_trajectories, paper.observation) == ("fixed", 7, "trig")
    for environment in ("pendulum", "cartpole", "cartpole-swingup", "acrobot", "linear-quadratic"):
        for name in ("default", "paper", "quick"):
            check_config(preset(environment, name, "enode"))
