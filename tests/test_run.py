"""Whole runs: files, determinism, evaluation that gives the same score again, and resuming from saved files."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest
from test_agent import same
from tiny import run_experiment

from ctmle.envs import Pendulum
from ctmle.lab.evaluate import evaluate
from ctmle.lab.experiment import Experiment, from_json, start, to_json
from ctmle.lab.run import Record, Run
from ctmle.lab.session import Session, save_checkpoint
from ctmle.lab.storage import RunFolder
from ctmle.lab.storage.trees import load_tree, save_tree


def without_seconds(record: dict) -> dict:
    return {key: value for key, value in record.items() if "seconds" not in key}


def trained(experiment: Experiment) -> tuple[RunFolder, list[Record]]:
    """Run an experiment in its folder to the end."""
    session = Session.begin(experiment)
    session.train()
    return session.folder, session.folder.read_metrics()


@pytest.mark.parametrize("agent", ["ct-mle", "ct-mle basis"])
def test_two_runs_of_one_seed_are_identical_bit_for_bit(agent, tmp_path):
    folders = []
    for name in ("a", "b"):
        folders.append(trained(run_experiment(agent, out=str(tmp_path / name)))[0])
    a, b = folders
    assert [without_seconds(r) for r in a.read_metrics()] == [without_seconds(r) for r in b.read_metrics()]
    for part in ("policy", "critic", "model", "data"):
        assert a.tensors(part).read_bytes() == b.tensors(part).read_bytes()


def test_metrics_have_what_a_reader_needs(tmp_path):
    folder, records = trained(run_experiment(out=str(tmp_path / "run")))
    assert folder.read_metrics() == records
    assert [r["episode"] for r in records] == [1, 2]
    wanted = {
        "episode", "score", "score_se", "success", "success_share", "imagined_score", "episode_score", "looks",
        "dynamics_loss", "planning_loss", "actor_loss", "critic_loss", "optimism_weight", "eta",
        "diffusion_learned", "diffusion_true", "experience_looks",
    }  # fmt: skip
    seconds = {"dynamics_seconds", "policy_seconds", "test_seconds", "experience_seconds"}
    for record in records:
        assert wanted <= record.keys()
        assert {key for key in record if "seconds" in key} == seconds
        assert len(record["diffusion_learned"]) == len(record["diffusion_true"]) == 2
        np.testing.assert_allclose(record["diffusion_true"], 0.2, rtol=1e-5)
    assert [r["looks"] for r in records] == [3 * 65, 4 * 65]
    assert [r["experience_looks"] for r in records] == [2 * 65, 3 * 65]
    assert [r["experience_seconds"] for r in records] == pytest.approx([2 * 4.0, 3 * 4.0])


@pytest.mark.parametrize("agent", ["ct-mle", "ct-mle basis"])
def test_resuming_from_any_moment_continues_identically(agent, tmp_path):
    """From every point at which a checkpoint may be taken, in the middle of stages too."""
    experiment = run_experiment(agent, episodes=2)
    run = Run(experiment)
    moments = list(run.steps(run.init()))
    expected = [without_seconds(m.record) for m in moments if m.record]
    folder = RunFolder.create(run_experiment(agent, out=str(tmp_path / "run")))
    for i, moment in enumerate(moments):
        if not moment.resumable:
            continue
        records = [m.record for m in moments[: i + 1] if m.record]
        save_checkpoint(folder, experiment, moment.state, folder.write_log(records))
        checkpoint = folder.read_checkpoint()
        assert checkpoint.finished == (len(records) == 2)
        again = Run(experiment)
        resumed = again.restore(checkpoint)
        assert same(resumed, moment.state)
        rest = list(again.steps(resumed))
        found = folder.read_metrics() + [m.record for m in rest if m.record]
        assert [without_seconds(r) for r in found] == expected
        if rest:
            assert same(rest[-1].state, moments[-1].state)


def test_evaluation_does_not_disturb_training():
    quiet, nosy = Run(run_experiment()), Run(run_experiment())
    expected = [without_seconds(r) for _, r in quiet.episodes(quiet.init())]
    found = []
    for state, record in nosy.episodes(nosy.init()):
        nosy.score(nosy.agent.policy(state), 17)
        found.append(without_seconds(record))
    assert found == expected


def test_scores_come_back_to_the_last_digit_and_outputs_differ(tmp_path):
    folder, records = trained(run_experiment(episodes=3, out=str(tmp_path / "run")))
    run = Run(folder.read_experiment())
    state = run.restore(folder.read_checkpoint())
    policy, episode = run.output(state, "final")
    assert episode == 3
    assert run.score(policy, episode).mean == records[-1]["score"]
    best, episode = run.output(state, "best")
    assert episode == 1 + int(np.argmax([r["episode_score"] for r in records]))
    assert run.score(best, episode).mean == records[episode - 1]["score"]
    _, episode = run.output(state, "random")
    assert 1 <= episode <= 3


def test_score_counts_only_the_time_after_the_warm_up():
    run = Run(run_experiment(sigma=0.0))
    score = evaluate(run.plant, run.agent.policy(run.init()), jax.random.key(0), run.evaluation)
    assert score.each.shape == (3,)
    assert score.standard_error == pytest.approx(0.0, abs=1e-7)
    assert 0 <= score.success_share <= 1


@pytest.fixture(scope="module")
def short_with_trig() -> tuple[Run, Any, Record]:
    """A run of one episode that ends before the warm-up, observed by sines and cosines; its state and record."""
    run = Run(run_experiment("ct-mle basis", episodes=1, trajectory_seconds=2.5, observation="trig"))
    ((state, record),) = run.episodes(run.init())
    return run, state, record


def test_an_episode_that_ends_before_the_warm_up_is_scored_over_what_there_is(short_with_trig):
    run, state, record = short_with_trig
    trajectory = run.agent.history(state)[-1].trajectory
    rewards = run.spec.reward(trajectory.states, trajectory.controls)
    assert record["episode_score"] == pytest.approx(float(rewards.mean()), rel=1e-5)


@pytest.mark.parametrize("agent", ["ct-mle", "enode", "sac-tacos"])
def test_an_experiment_survives_its_file(agent, tmp_path):
    experiment = run_experiment(agent, out=str(tmp_path / "run"), sigma=1.5)
    folder = RunFolder.create(experiment)
    assert folder.read_experiment() == experiment
    content = folder.read_settings()
    assert {"python", "jax", "ctmle", "commit"} <= content["versions"].keys()
    assert content["sigma"] == 1.5
    assert from_json(to_json(experiment)) == experiment


def test_code_from_outside_is_imported_only_if_it_is_named_or_trusted():
    content = to_json(run_experiment())
    content["parts"]["agent"]["part"] = "os:system"
    with pytest.raises(ValueError, match=r"os:system, which is not part of ctmle: pass --trust"):
        from_json(content)
    content = to_json(run_experiment())
    content["system"]["environment"] = "/tmp/nowhere.py:Tank"
    with pytest.raises(ValueError, match=r"nowhere.py:Tank: name it again with --environment, or pass --trust"):
        from_json(content)
    with pytest.raises(ValueError, match="there is no file"):
        from_json(content, trust=True)


def test_a_folder_with_something_in_it_is_never_overwritten(tmp_path):
    (tmp_path / "precious.txt").write_text("data")
    with pytest.raises(ValueError, match="choose another --out"):
        RunFolder.create(run_experiment(out=str(tmp_path)))
    assert [p.name for p in tmp_path.iterdir()] == ["precious.txt"]


def test_tensors_of_another_shape_of_tree_are_refused(tmp_path):
    path = tmp_path / "x.safetensors"
    save_tree(path, {"a": jax.numpy.zeros(3)})
    with pytest.raises(ValueError, match="does not fit this run"):
        load_tree(path, {"b": jax.numpy.zeros(3)})
    with pytest.raises(ValueError, match=r"'\['a'\]' is float32\[3\], not float32\[3, 1\]"):
        load_tree(path, {"a": jax.numpy.zeros((3, 1))})
    path.write_bytes(b"not tensors")
    with pytest.raises(ValueError, match="not a safetensors file"):
        load_tree(path, {"a": jax.numpy.zeros(3)})


def test_saved_trees_come_back_with_keys_and_types(tmp_path):
    tree = {"key": jax.random.key(3), "n": jax.numpy.arange(4), "x": jax.numpy.ones((2, 2)), "name": "static"}
    save_tree(tmp_path / "t.safetensors", tree)
    back = load_tree(tmp_path / "t.safetensors", tree)
    assert same(tree, back)
    assert back["name"] == "static"
    assert eqx.tree_equal(jax.random.normal(back["key"]), jax.random.normal(tree["key"]))


def test_both_observations_run(short_with_trig):
    run = Run(run_experiment(observation="angles", episodes=1))
    ((_, angles),) = run.episodes(run.init())
    _, _, trig = short_with_trig
    for record, observed in ((angles, 2), (trig, 3)):
        assert np.isfinite(record["score"])
        assert len(record["diffusion_true"]) == observed


def test_presets_say_what_they_are():
    paper = start("pendulum", "ct-mle", "paper").settings
    assert (paper["objective"], paper["gap_weighted"], paper["observation"]) == ("score-matching", False, "trig")
    assert (paper["dynamics_batch"], paper["dynamics_length"], paper["dynamics_updates"]) == (5, 5, 500)
    assert (paper["policy_samples"], paper["policy_step"], paper["gap"]) == (5, 0.125, 0.125)
    assert (paper["dynamics_final_rate"], paper["policy_final_rate"]) == (1.0, 1.0)
    assert (paper["reset_starts"], paper["box_starts"], paper["saturation_cost"]) == (0.0, 0.0, 0.0)
    assert (paper["pool_starts"], paper["rest_starts"], paper["target_rate"]) == (0.0, 0.0, None)
    assert (paper["model"], paper["kinematics"]) == ("ensemble", False)
    assert (paper["policy_rounds"], paper["keep_best"]) == (1, False)
    assert [start(system, "ct-mle", "paper").settings["start_width"] for system in ("cartpole", "acrobot")] == [
        0.0,
        0.0,
    ]
    assert start("cartpole-swingup", "ct-mle", "paper").settings["policy_updates"] == 250
    start("linear-quadratic", "ct-mle", "paper")
    default, quick = (start("pendulum", "ct-mle", name).settings for name in ("default", "quick"))
    for name in ("episodes", "policy_updates", "policy_rounds"):
        assert quick[name] < default[name]
    assert default["model"] == quick["model"] == "basis"
    assert default.items() >= Pendulum.tuned["ct-mle default"].items()
    with pytest.raises(ValueError, match="no preset of ct-mle is called 'convergence'"):
        start("pendulum", "ct-mle", "convergence")
