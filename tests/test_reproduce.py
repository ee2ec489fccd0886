"""`ctmle reproduce`: its files and messages, on made-up results and on real ones."""

import csv
import json
import shlex
from dataclasses import replace

import pytest
from synthetic import SHOWING, errors, failed, gaps_rise, results

from ctmle.lab.cli.main import main
from ctmle.lab.cli.parse import command_line, parse
from ctmle.lab.cli.sweep import ReproduceCommand, SweepCommand
from ctmle.lab.paper.findings import paper_experiment, write_findings
from ctmle.lab.report.pictures import save
from ctmle.lab.report.results import finished
from ctmle.lab.sweeps import Plan

NAMES = tuple(SHOWING)
pytestmark = pytest.mark.usefixtures("few_resamples")


@pytest.mark.parametrize("name", NAMES)
def test_findings_are_written_whole_and_read_back(name, tmp_path):
    asked = ReproduceCommand(name, size="smoke", seeds=2)
    study = paper_experiment(asked.experiment)
    plan = Plan.of(study.runs(asked))
    found = results(study.runs(asked), SHOWING[name])
    found[-1] = failed(found[-1])
    for seconds in (3.0, 7.0):  # the second time in place of the first
        found[0] = replace(found[0], seconds=seconds)
        write_findings(tmp_path / "findings", study, "ctmle reproduce", plan, found)
    assert [path.name for path in tmp_path.iterdir()] == ["findings"]
    files = {path.name: path.read_bytes() for path in (tmp_path / "findings").iterdir()}
    assert files.keys() == {"figure.png", "figure.svg", "results.csv", "verdict.md", "made_by.json"}
    assert files["figure.png"].startswith(b"\x89PNG")
    assert b"<svg" in files["figure.svg"][:1000]
    made_by = json.loads(files["made_by.json"])
    assert (made_by["runs"], made_by["failed"], made_by["command"]) == (len(found), 1, "ctmle reproduce")
    assert {"ctmle", "jax", "numpy", "python"} <= made_by["versions"].keys()
    page = files["verdict.md"].decode()
    assert page.count("not decided") + page.count("agrees") >= len(study.verdicts(finished(found)))
    assert "a loss is not finite" in page
    rows = list(csv.DictReader(files["results.csv"].decode().splitlines()))
    assert [tuple(map(float, row["scores"].split())) for row in rows] == [result.scores for result in found]
    assert [row["first_success"] for row in rows[:-1]] == [str(r.first_success or "") for r in found[:-1]]
    assert [float(row["seed"]) for row in rows] == [result.settings["seed"] for result in found]
    assert (rows[0]["seconds"], rows[-1]["status"]) == ("7.0", "failed")


def test_findings_that_cannot_be_written_leave_those_of_before(tmp_path, monkeypatch):
    asked = ReproduceCommand("convergence", size="smoke")
    study = paper_experiment(asked.experiment)
    plan, found = Plan.of(study.runs(asked)), results(study.runs(asked), errors(-0.5))
    place = tmp_path / "findings"
    write_findings(place, study, "first", plan, found)

    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr("ctmle.lab.paper.findings.write_json", full)
    with pytest.raises(OSError, match="no space left"):
        write_findings(place, study, "second", plan, found)
    assert [path.name for path in tmp_path.iterdir()] == ["findings"]
    assert json.loads((place / "made_by.json").read_text())["command"] == "first"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scores", [lambda s, r: [0.0] * s["episodes"], lambda s, r: [0.95] * s["episodes"]])
def test_figures_and_tables_of_runs_that_are_all_alike(name, scores, tmp_path):
    asked = ReproduceCommand(name, size="smoke")
    study = paper_experiment(asked.experiment)
    found = results(study.runs(asked), scores)
    save(study.figure(found), tmp_path / "figure.png")
    assert study.measured(found).row_count
    assert {verdict.decision for verdict in study.verdicts(found)} <= {"not decided", "agrees", "disagrees"}


def test_a_cell_without_finished_runs_is_not_known(tmp_path):
    asked = ReproduceCommand("gap", size="smoke")
    study = paper_experiment(asked.experiment)
    found = [r for r in results(study.runs(asked), gaps_rise) if (r.settings["sigma"], r.settings["gap"]) != (0.0, 0.5)]
    save(study.figure(found), tmp_path / "figure.png")
    assert str(next(iter(study.measured(found).columns[2].cells))) == "not known"
    assert {v.decision for v in study.verdicts(found)} == {"not decided"}


# The command


def test_a_dry_run_says_what_there_is_to_do_and_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    main(["reproduce", "gap", "--environments", "pendulum", "--dry-run"])
    said = capsys.readouterr().out
    assert "ctmle reproduce gap --environments pendulum\n" in said
    assert "63 runs: 0 finished, 0 begun, 63 to do, time unknown until a run has ended" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("reproduce", "{comparison,gap,width,convergence}"),
        ("reproduce figure", "'figure'"),
        ("reproduce gap --size large", "large"),
        ("reproduce gap --seeds 0", "--seeds must be a whole number of at least 1"),
        ("reproduce gap --environments pendulum pendulum", "twice"),
        ("reproduce gap --environments moon", "moon"),
        ("reproduce gap --optimum 1", "--optimum"),
        ("reproduce convergence --optimum nan", "--optimum must be a finite number"),
        ("reproduce gap --address auto", "--engine ray"),
    ],
)
def test_mistakes_are_one_line_and_write_nothing(line, complaint, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(line.split())
    error = capsys.readouterr().err
    assert stop.value.code == 2
    assert complaint in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "line",
    [
        "ctmle reproduce gap",
        "ctmle reproduce convergence --optimum 0.98 --seeds 4 --size paper",
        "ctmle reproduce gap --environments acrobot pendulum --preset paper --out 'a b' --dry-run --workers 3",
        "ctmle sweep file.toml --retries 0 --engine ray --address auto",
    ],
)
def test_a_command_spells_itself(line):
    _, name, *words = shlex.split(line)
    kind = {"reproduce": ReproduceCommand, "sweep": SweepCommand}[name]
    asked = parse(kind, words, f"ctmle {name}")
    assert parse(kind, shlex.split(command_line(asked))[2:], f"ctmle {name}") == asked
    assert sorted(shlex.split(command_line(asked))) == sorted(shlex.split(line))


def test_a_real_experiment_and_again_with_nothing_left_to_do(tmp_path, capsys):
    line = ["reproduce", "convergence", "--size", "smoke", "--seeds", "1", "--out", str(tmp_path / "out")]
    main(line)
    assert "1 runs: 0 finished, 0 begun, 1 to do" in capsys.readouterr().out
    first = (tmp_path / "out" / "findings" / "verdict.md").read_text()
    assert "ctmle reproduce convergence --size smoke --seeds 1" in first
    main(line)
    assert "1 runs: 1 finished, 0 begun, 0 to do" in capsys.readouterr().out
    assert (tmp_path / "out" / "findings" / "verdict.md").read_text() == first
