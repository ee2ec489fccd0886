"""`ctmle compare` on tiny real runs, and on folders with their records and other settings."""

import json

import numpy as np
import pytest
from tiny import run_experiment

from ctmle.lab.cli.main import main
from ctmle.lab.report.comparison import compare
from ctmle.lab.report.results import read_result
from ctmle.lab.session import Session
from ctmle.lab.storage import RunFolder


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders by name: two seeds of SAC-TaCoS as they ran, and the first's records under other settings."""
    folder = tmp_path_factory.mktemp("runs")
    paths = {}
    for name, changes in {"tacos-0": {}, "tacos-1": {"seed": 1, "episodes": 3}}.items():
        Session.begin(run_experiment("sac-tacos", out=str(folder / name), **changes)).train()
        paths[name] = str(folder / name)
    others = {
        "ct-mle-0": {"agent": "ct-mle"},
        "calm": {"sigma": 0.0},
        "expensive": {"switch_cost": 0.5},
        "long": {"horizon": 5.0},
    }
    records = RunFolder.open(paths["tacos-0"]).read_metrics()
    for name, changes in others.items():
        experiment = run_experiment(**{"agent": "sac-tacos", "out": str(folder / name), **changes})
        RunFolder.create(experiment).write_log(records)
        paths[name] = str(folder / name)
    return paths


def test_means_and_errors_are_those_of_the_records(runs):
    (panel,) = compare([read_result(runs[name]) for name in ("tacos-0", "tacos-1", "ct-mle-0")])
    tacos, ct_mle = panel.curves
    assert (panel.environment, panel.sigma) == ("pendulum", 2.0)
    assert (tacos.agent, tacos.seeds, ct_mle.agent, ct_mle.seeds) == ("sac-tacos", (0, 1), "ct-mle", (0,))
    assert tacos.episodes == (1, 2)  # those that both seeds were tested at
    records = [RunFolder.open(runs[name]).read_metrics()[:2] for name in ("tacos-0", "tacos-1")]
    for episode in range(2):
        scores = [record[episode]["score"] for record in records]
        assert tacos.score[episode] == pytest.approx(np.mean(scores))
        assert tacos.score_se is not None
        assert tacos.score_se[episode] == pytest.approx(abs(scores[0] - scores[1]) / 2)
        assert tacos.looks[episode] == np.mean([record[episode]["looks"] for record in records])
    assert ct_mle.score_se is None
    assert ct_mle.looks == tuple(r["looks"] for r in RunFolder.open(runs["ct-mle-0"]).read_metrics())


def test_noise_levels_have_panels_of_their_own_and_variants_names(runs):
    calm, noisy = compare([read_result(runs[name]) for name in ("tacos-0", "calm", "expensive")])
    assert (calm.sigma, noisy.sigma) == (0.0, 2.0)
    assert [curve.agent for curve in calm.curves] == ["sac-tacos"]
    names = [curve.agent for curve in noisy.curves]
    assert names == ["sac-tacos, switch cost 0.002", "sac-tacos, switch cost 0.5"]


def test_command_writes_a_picture_and_prints(runs, tmp_path, capsys):
    out = tmp_path / "deep" / "comparison.png"
    main(["compare", runs["tacos-0"], runs["ct-mle-0"], "--out", str(out), "--json"])
    (panel,) = json.loads(capsys.readouterr().out)
    assert [curve["agent"] for curve in panel["curves"]] == ["sac-tacos", "ct-mle"]
    assert out.read_bytes().startswith(b"\x89PNG")
    main(["compare", runs["tacos-0"], "--out", str(out)])
    assert "sac-tacos " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["tacos-0", "long"], "have different tasks: --horizon is 4.0 and 5.0"),
        (["tacos-0", "tacos-0"], "are the same run, seed 0, twice: leave one out"),
        (["nowhere"], "nowhere is not a run folder"),
        ([], "give the run folders to compare"),
        (["tacos-0", "--out", "x.pdf"], "--out must end in .png, not 'x.pdf'"),
    ],
)
def test_runs_that_cannot_be_compared_are_refused_in_one_line(
    runs, arguments, complaint, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(["compare", *(runs.get(argument, argument) for argument in arguments)])
    error = capsys.readouterr().err
    assert stop.value.code == 2
    assert complaint in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_run_without_episodes_is_refused(tmp_path):
    folder = RunFolder.create(run_experiment(out=str(tmp_path / "new")))
    with pytest.raises(ValueError, match="has finished no episode yet: continue with `ctmle resume"):
        read_result(str(folder.path))
