"""Whole runs of SAC-TaCoS: files, records, resuming, evaluation, tests every few episodes, bad settings."""

import numpy as np
import pytest
from test_agent import same
from test_run import trained, without_seconds
from tiny import TACOS, run_experiment

from ctmle.agents import SacTacos
from ctmle.lab.cli.main import main
from ctmle.lab.experiment import start
from ctmle.lab.run import Run
from ctmle.lab.session import save_checkpoint
from ctmle.lab.storage import RunFolder


@pytest.mark.parametrize("test_every", [1, 2])
def test_resuming_from_any_moment_continues_identically(tmp_path, test_every):
    experiment = run_experiment("sac-tacos", episodes=3, test_every=test_every)
    run = Run(experiment)
    moments = list(run.steps(run.init()))
    expected = [without_seconds(m.record) for m in moments if m.record]
    assert [record["episode"] for record in expected] == ([1, 2, 3] if test_every == 1 else [2, 3])
    folder = RunFolder.create(experiment.changed({"out": str(tmp_path / "run")}))
    resumable = [i for i, moment in enumerate(moments) if moment.resumable]
    for i in resumable[:: max(1, len(resumable) // 5)] + resumable[-1:]:
        records = [m.record for m in moments[: i + 1] if m.record]
        save_checkpoint(folder, experiment, moments[i].state, folder.write_log(records))
        checkpoint = folder.read_checkpoint()
        assert checkpoint.finished == (i == resumable[-1])
        again = Run(experiment)
        resumed = again.restore(checkpoint)
        assert same(resumed, moments[i].state)
        rest = list(again.steps(resumed))
        found = folder.read_metrics() + [m.record for m in rest if m.record]
        assert [without_seconds(r) for r in found] == expected
        if rest:
            assert same(rest[-1].state, moments[-1].state)


def test_records_have_the_fields_of_every_agent_and_none_of_a_belief(tmp_path):
    folder, records = trained(run_experiment("sac-tacos", out=str(tmp_path / "run")))
    assert folder.read_metrics() == records
    shared = {"episode", "score", "score_se", "success", "success_share", "episode_score", "looks", "mean_gap",
              "lowest_reward", "experience_looks"}  # fmt: skip
    own = {"actor_loss", "critic_loss", "critic_value", "entropy", "temperature", "updates", "setbacks"}
    for record in records:
        seconds = {name for name in record if "seconds" in name}
        assert seconds == {"updates_seconds", "test_seconds", "experience_seconds"}
        assert record.keys() == shared | own | seconds
        assert TACOS.holding.tick <= record["mean_gap"] <= TACOS.holding.tick * TACOS.holding.max_hold
    assert all(folder.tensors(part).is_file() for part in ("policy", "critic", "data"))
    gaps = [4.0 / record["mean_gap"] for record in records]
    assert records[1]["looks"] - records[0]["looks"] == pytest.approx(1 + gaps[1])


def test_scores_come_back_to_the_last_digit(tmp_path):
    folder, records = trained(run_experiment("sac-tacos", episodes=3, out=str(tmp_path / "run")))
    run = Run(folder.read_experiment())
    state = run.restore(folder.read_checkpoint())
    for which in ("final", "best", "random"):
        policy, episode = run.output(state, which)
        assert run.score(policy, episode).mean == records[episode - 1]["score"]
    assert run.output(state, "final")[1] == 3
    assert run.output(state, "best")[1] == 1 + int(np.argmax([r["episode_score"] for r in records]))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"gamma": 1.0}, "gamma must be strictly between 0 and 1, not 1.0"),
        ({"tick": 0.0}, "tick must be a positive number"),
        ({"tick": 5.0}, "tick 5 is longer than the horizon 4 s"),
        ({"min_hold": 5, "max_hold": 4}, "min_hold 5 is longer than max_hold 4"),
        ({"min_hold": 90, "max_hold": 90}, "min_hold 90 ticks of 0.05 s are longer than the horizon 4 s"),
        ({"switch_cost": -1.0}, "switch_cost must be a number of at least 0"),
        ({"pessimism": 2.0}, "pessimism must be between 0 and 1"),
        ({"hidden": ()}, "hidden must be one or more positive widths"),
    ],
)
def test_settings_that_cannot_work_are_named(changes, complaint):
    with pytest.raises(ValueError, match=complaint):
        run_experiment("sac-tacos", **changes)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--preset", "convergence"], "no preset of ct-mle is called 'convergence'"),
        (["--agent", "sac-tacos", "--test-every", "9"], "test_every 9 leaves no test in 5 episodes"),
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
    assert start("pendulum", "sac-tacos").agent == SacTacos()
    convergence = start("pendulum", "sac-tacos", "convergence").training
    assert convergence.episodes >= 100
    assert convergence.test_every > 1
    paper = start("pendulum", "sac-tacos", "paper").settings
    assert (paper["pessimism"], paper["target_rate"], paper["max_hold"]) == (1.0, 0.005, 30)
    in_ticks = paper["switch_cost"] / paper["tick"]
    assert (in_ticks, paper["reward_scale"] * paper["tick"]) == (pytest.approx(0.1), pytest.approx(1.0))
    assert start("acrobot", "sac-tacos").training.episodes == 15
