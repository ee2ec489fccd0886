"""Whole runs of SAC-TaCoS: files, records, resuming, evaluation, tests every few episodes, bad settings."""

from dataclasses import replace

import numpy as np
import pytest
from test_agent import same
from test_run import without_seconds
from tiny import TACOS, run_config

from ctmle.checks import check_config
from ctmle.config import SacTacosConfig, preset
from ctmle.lab.cli.main import main
from ctmle.lab.run import Run
from ctmle.lab.storage import RunFolder


def tacos_config(**changes):
    return run_config(agent="sac-tacos", learner=TACOS, **changes)


@pytest.mark.parametrize("test_every", [1, 2])
def test_resuming_from_any_moment_continues_identically(tmp_path, test_every):
    config = tacos_config(episodes=3, test_every=test_every)
    run = Run(config)
    moments = list(run.steps(run.init()))
    expected = [without_seconds(m.record) for m in moments if m.record]
    assert [record["episode"] for record in expected] == ([1, 2, 3] if test_every == 1 else [2, 3])
    folder = RunFolder.create(replace(config, out=str(tmp_path / "run")))
    resumable = [i for i, moment in enumerate(moments) if moment.resumable]
    for i in resumable[:: max(1, len(resumable) // 5)] + resumable[-1:]:
        records = [m.record for m in moments[: i + 1] if m.record]
        run.save_checkpoint(folder, moments[i].state, records)
        checkpoint = folder.read_checkpoint()
        assert checkpoint.finished == (i == resumable[-1])
        again = Run(config)
        resumed = again.restore(checkpoint)
        assert same(resumed, moments[i].state)
        rest = list(again.steps(resumed))
        found = checkpoint.records + [m.record for m in rest if m.record]
        assert [without_seconds(r) for r in found] == expected
        if rest:
            assert same(rest[-1].state, moments[-1].state)


def test_records_have_the_fields_of_every_agent_and_none_of_a_belief(tmp_path):
    config = tacos_config(out=str(tmp_path / "run"))
    folder = RunFolder.create(config)
    records = Run(config).train(folder)
    assert folder.read_metrics() == records
    shared = {"episode", "score", "score_se", "success", "success_share", "episode_score", "looks", "mean_gap",
              "lowest_reward"}  # fmt: skip
    own = {"actor_loss", "critic_loss", "critic_value", "entropy", "temperature", "updates", "setbacks"}
    for record in records:
        seconds = {name for name in record if "seconds" in name}
        assert seconds == {"updates_seconds", "test_seconds"}
        assert record.keys() == shared | own | seconds
        assert TACOS.tick <= record["mean_gap"] <= TACOS.tick * TACOS.max_hold
    assert all(folder.tensors(part).is_file() for part in ("policy", "critic", "data"))
    gaps = [4.0 / record["mean_gap"] for record in records]
    assert records[1]["looks"] - records[0]["looks"] == pytest.approx(1 + gaps[1])


def test_scores_come_back_to_the_last_digit(tmp_path):
    config = tacos_config(episodes=3, out=str(tmp_path / "run"))
    folder = RunFolder.create(config)
    records = Run(config).train(folder)
    run = Run(folder.read_config())
    state = run.restore(folder.read_checkpoint())
    for which in ("final", "best", "random"):
        policy, episode = run.output(state, which)
        assert run.score(policy, episode).mean == records[episode - 1]["score"]
    assert run.output(state, "final")[1] == 3
    assert run.output(state, "best")[1] == 1 + int(np.argmax([r["episode_score"] for r in records]))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"gamma": 1.0}, "--gamma must be between 0 and 1, and neither, not 1.0"),
        ({"tick": 0.0}, "--tick must be a positive number"),
        ({"tick": 3.0}, "--tick 3 is longer than the time that is scored"),
        ({"min_hold": 5, "max_hold": 4}, "--min-hold 5 is longer than --max-hold 4"),
        ({"min_hold": 90, "max_hold": 90}, "--min-hold 90 ticks of 0.05 s are longer than the horizon 4 s"),
        ({"switch_cost": -1.0}, "--switch-cost must be a number of at least 0"),
        ({"pessimism": 2.0}, "--pessimism must be between 0 and 1"),
        ({"hidden": ()}, "--hidden must be one or more positive widths"),
        ({"trajectories_per_episode": 40}, "--policies-kept 32 must hold at least the 40"),
    ],
)
def test_settings_that_cannot_work_are_named(changes, complaint):
    with pytest.raises(ValueError, match=complaint):
        check_config(run_config(agent="sac-tacos", learner=replace(TACOS, **changes)))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--preset", "convergence"], "--preset convergence is for --agent sac-tacos"),
        (["--agent", "sac-tacos", "--test-every", "9"], "--test-every 9 leaves no test in 5 episodes"),
    ],
)
def test_the_command_line_refuses_in_one_line(arguments, complaint, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(["train", "pendulum", *arguments])
    assert stop.value.code == 2
    assert complaint in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_presets_say_what_they_are():
    assert preset("pendulum", "default", "sac-tacos").learner == SacTacosConfig()
    convergence = preset("pendulum", "convergence", "sac-tacos")
    assert convergence.episodes >= 100
    assert convergence.test_every > 1
    paper = preset("pendulum", "paper", "sac-tacos").learner
    assert (paper.pessimism, paper.target_rate, paper.max_hold) == (1.0, 0.005, 30)
    assert preset("acrobot", "default", "sac-tacos").episodes == 15
