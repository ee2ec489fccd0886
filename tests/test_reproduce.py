"""`ctmle reproduce`: which runs are planned, what is said of results that show, contradict or do not decide a claim."""

import csv
import json
import shlex
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import failed, results, success_at
from tiny import run_config

from ctmle.checks import check_config
from ctmle.cli import _parse, main
from ctmle.commands.spelled import spelled
from ctmle.config import ReproduceCommand
from ctmle.report.pictures import save
from ctmle.report.statistics import Estimate
from ctmle.reproduce import experiment
from ctmle.reproduce.findings import find, write_findings
from ctmle.reproduce.grid import Grid
from ctmle.reproduce.outcomes import episodes_to_success, finished
from ctmle.reproduce.verdict import above, below, is_value, within
from ctmle.sweeps import Plan

NAMES = ("comparison", "gap", "width", "convergence")


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    """What is decided here is far from any limit, and shapes are checked at every call."""
    monkeypatch.setattr("ctmle.report.statistics.RESAMPLES", 300)


def command(name, **settings):
    return ReproduceCommand(name, **settings)


def decisions(name, scores, **settings):
    """What is decided of each claim, by a piece of the claim's text, for runs with such scores."""
    asked = command(name, **settings)
    study = experiment(asked)
    verdicts = study.verdicts(results(study.runs(asked), scores))
    assert {verdict.seeds for verdict in verdicts} == {asked.seeds or verdicts[0].seeds}
    return lambda piece: {verdict.decision for verdict in verdicts if piece in verdict.claim}


# Plans


@pytest.mark.parametrize(
    ("name", "size", "runs"),
    [
        ("comparison", "paper", 3 * (10 + 5 + 5)),
        ("comparison", "small", 3 * 3 * 3),
        ("comparison", "smoke", 3 * 2),
        ("gap", "paper", 6 * 8 * (10 + 5 + 5)),
        ("gap", "small", 3 * 7 * 3),
        ("gap", "smoke", 2 * 2 * 2),
        ("width", "paper", 5 * 5),
        ("width", "small", 5 * 3),
        ("width", "smoke", 2 * 2),
        ("convergence", "paper", 10),
        ("convergence", "small", 5),
        ("convergence", "smoke", 2),
    ],
)
def test_plans_have_the_promised_number_of_runs_that_work(name, size, runs):
    asked = command(name, size=size)
    configs = experiment(asked).runs(asked)
    assert len(Plan.of(configs).runs) == len(configs) == runs  # no two alike
    for config in configs:
        check_config(config)


@pytest.mark.parametrize("name", NAMES)
def test_more_seeds_add_runs_and_change_none(name):
    few, many = command(name, seeds=2), command(name, seeds=3)
    there = experiment(few).runs(few)
    more = experiment(many).runs(many)
    assert all(config in more for config in there)
    assert {config.seed for config in more if config not in there} == {2}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", ["small", "smoke"])
def test_environments_and_presets_are_those_asked_for(name, size):
    asked = command(name, size=size, environments=("acrobot", "cartpole"), preset="paper")
    configs = experiment(asked).runs(asked)
    assert list(dict.fromkeys(config.environment for config in configs)) == ["acrobot", "cartpole"]
    assert {config.preset for config in configs} == {"paper"}
    assert {config.observation for config in configs} == {"trig"}
    for config in configs:
        check_config(config)


def test_the_comparison_is_the_papers():
    asked = command("comparison")
    configs = experiment(asked).runs(asked)
    assert {config.sigma for config in configs} == {2.0}
    assert {(c.environment, c.episodes) for c in configs} == {("pendulum", 5), ("cartpole", 15), ("acrobot", 15)}
    assert Counter(c.agent for c in configs) == {"ct-mle": 9, "enode": 9, "sac-tacos": 9}
    assert not any(config.stop_at_success for config in configs)


def test_the_grid_of_gaps_is_the_papers():
    asked = command("gap", size="paper")
    configs = experiment(asked).runs(asked)
    assert sorted({config.sigma for config in configs}) == [0.0, 0.4, 0.8, 1.2, 1.6, 2.0]
    assert {config.gap for config in configs} == {2.0**-i for i in range(8)}
    assert {(c.environment, c.episodes) for c in configs} == {("pendulum", 15), ("cartpole", 30), ("acrobot", 25)}
    assert all(c.stop_at_success and not c.learner.optimism and c.agent == "ct-mle" for c in configs)


def test_widths_and_convergence_are_the_papers():
    wide, long = command("width"), command("convergence")
    hidden = [config.learner.dynamics_hidden for config in experiment(wide).runs(wide)]
    assert hidden[::3] == [(units,) * 3 for units in (150, 175, 200, 225, 250)]
    assert {(c.environment, c.sigma, c.gap, c.episodes) for c in experiment(long).runs(long)} == {
        ("pendulum", 2.0, 0.125, 15)
    }


# Decisions


@pytest.mark.parametrize(
    ("interval", "above_zero", "within_one", "is_half"),
    [
        ((0.1, 0.9), "agrees", "agrees", "agrees"),
        ((-0.9, -0.1), "disagrees", "agrees", "disagrees"),
        ((-0.1, 0.9), "not decided", "agrees", "not decided"),
        ((0.4, 1.2), "agrees", "not decided", "not decided"),
        ((1.1, 3.0), "agrees", "disagrees", "disagrees"),
        ((-3.0, -1.1), "disagrees", "disagrees", "disagrees"),
        ((-3.0, 3.0), "not decided", "not decided", "not decided"),
        (None, "not decided", "not decided", "not decided"),
    ],
)
def test_decisions(interval, above_zero, within_one, is_half):
    estimate = Estimate(0.5, interval, 3)
    assert above(estimate, 0.0) == above_zero
    assert within(estimate, 1.0) == within_one
    assert is_value(estimate, 0.5, (0.0, 1.0)) == is_half


@given(st.tuples(st.floats(-3, 3), st.floats(-3, 3)).map(sorted).map(tuple), st.floats(-3, 3))
def test_below_is_above_seen_in_a_mirror(interval, limit):
    mirrored = Estimate(0.0, (-interval[1], -interval[0]), 3)
    assert below(Estimate(0.0, interval, 3), limit) == above(mirrored, -limit)


# Comparison


def learners(**tops):
    """Scores that rise from 0.1 to each agent's top, with a little noise."""

    def scores(config, random):
        n = np.arange(config.episodes)
        return 0.1 + (tops[config.agent.replace("-", "_")] - 0.1) * n / n[-1] + random.normal(0, 0.01, len(n))

    return scores


def test_a_comparison_that_shows_the_papers_claims():
    said = decisions("comparison", learners(ct_mle=0.95, enode=0.12, sac_tacos=0.6))
    assert said("ends above enode") == said("ends above sac-tacos") == {"agrees"}
    assert said("enode performs poorly") == said("no meaningful improvement") == {"agrees"}
    assert said("faster at first") == said("varies less") == said("is largest on acrobot") == {"not decided"}


def test_a_comparison_that_contradicts_them():
    said = decisions("comparison", learners(ct_mle=0.5, enode=0.98, sac_tacos=0.8))
    assert said("ends above enode") == said("ends above sac-tacos") == {"disagrees"}
    assert said("enode performs poorly") == said("no meaningful improvement") == {"disagrees"}


def test_claims_about_pace_and_the_hardest_system():
    def scores(config, random):
        lead = {"pendulum": 0.1, "cartpole": 0.2, "acrobot": 0.5}[config.environment]
        start, end = (0.1, 0.3 + lead) if config.agent == "ct-mle" else (0.25, 0.3)
        noise = 0.03 if config.agent == "ct-mle" else 0.002
        return np.linspace(start, end, config.episodes) + random.normal(0, noise, config.episodes)

    said = decisions("comparison", scores, seeds=8)
    assert said("faster at first") == said("varies less") == said("is largest on acrobot") == {"agrees"}


# Gap


def gaps_rise(config, random):
    """Twice the gap for each unit of sigma, and one episode more; away from the best gap it takes longer."""
    away = abs(np.log2(config.gap) - (-4 + config.sigma))
    return success_at(1 + round(config.sigma + 2 * away + 0.2 * random.normal()), config)


def gaps_fall(config, random):
    return gaps_rise(replace(config, sigma=2.0 - config.sigma), random)


def test_gaps_that_rise_and_fall():
    rising, falling = decisions("gap", gaps_rise), decisions("gap", gaps_fall)
    for claim in ("the optimal gap rises", "episodes to success rise"):
        assert rising(claim) == {"agrees"}
        assert falling(claim) == {"disagrees"}
    assert rising("is not the finest") == {"agrees"}


@pytest.mark.parametrize("episode", [1, 99])
def test_gaps_that_make_no_difference_decide_nothing(episode):
    """Whether every run succeeds at once or none ever does."""
    said = decisions("gap", lambda config, random: success_at(episode, config))
    assert said("") == {"not decided"}


def grid(cells, budget=5):
    """Of one sigma; each cell a gap from 1 down by halves, with episodes to success of every seed; None for none."""
    runs = [
        run_config(gap=2.0**-i, seed=seed, episodes=budget, stop_at_success=True)
        for i, cell in enumerate(cells)
        for seed in range(len(cell))
    ]
    at = iter([episode for cell in cells for episode in cell])
    return Grid.of("pendulum", results(runs, lambda config, random: success_at(next(at) or 99, config)))


def test_the_optimal_gap_is_the_largest_with_the_fewest_episodes():
    assert (
        grid([[5, 5], [2, 2], [1, 3], [3, 3]]).optimal_gap(2.0).value == 0.5
    )  # the mean counts, and of equals the largest
    assert grid([[5, 5], [2, 3], [1, 3], [3, 3]]).optimal_gap(2.0).value == 0.25
    assert grid([[None, 1], [3, 3]]).optimal_gap(2.0).value == 0.5  # no success counts as 6: a mean of 3.5
    assert grid([[None, 1], [4, 4]]).optimal_gap(2.0).value == 1.0
    assert grid([[None, None], [None, None]]).optimal_gap(2.0).value is None


def test_no_success_counts_as_one_episode_more_than_there_were():
    runs = results([run_config(episodes=7)] * 2, lambda config, random: success_at(99, config))
    assert episodes_to_success(runs).tolist() == [8, 8]
    assert grid([[None, 1]]).means().tolist() == [[3.5]]
    assert grid([[None, 1]]).succeeded == ("1 of 2",)


# Width


def widths(effect):
    def scores(config, random):
        gain = effect * (config.learner.dynamics_hidden[0] - 150) / 100
        return 0.6 + gain + random.normal(0, 0.01, config.episodes)

    return scores


def test_widths_that_make_a_difference_or_none():
    none, much = decisions("width", widths(0.0)), decisions("width", widths(0.35))
    for claim in ("curves are alike", "after two episodes", "final scores are alike", "on par"):
        assert none(claim) == {"agrees"}
        assert much(claim) == {"disagrees"}
    assert none("no improvement") == {"agrees"}
    assert much("no improvement") == {"disagrees"}
    assert decisions("width", widths(0.05))("final scores are alike") == {"not decided"}


# Convergence


def errors(exponent, optimum=0.98):
    def scores(config, random):
        n = np.arange(1, config.episodes + 1)
        return optimum - 0.3 * n**exponent * np.exp(random.normal(0, 0.1, len(n)))

    return scores


@pytest.mark.parametrize(
    ("exponent", "falls", "as_root"),
    [(-0.5, "agrees", "agrees"), (-1.5, "agrees", "disagrees"), (0.3, "disagrees", "disagrees")],
)
def test_an_exponent_is_recovered_where_the_optimum_is_known(exponent, falls, as_root):
    said = decisions("convergence", errors(exponent), optimum=0.98)
    assert said("last policy: the error falls") == {falls}
    assert said("last policy: it falls as 1/sqrt(N)") == {as_root}


def test_errors_are_measured_from_the_best_that_is_known():
    asked = command("convergence", seeds=2)
    study, better = experiment(asked), experiment(replace(asked, optimum=0.99))
    runs = results(study.runs(asked), errors(-0.5))
    best = max(max(result.scores) for result in runs)
    (own,), (given_,) = study.errors(runs), better.errors(runs)  # pyright: ignore[reportAttributeAccessIssue]
    assert own.optimum == best
    assert own.each.min() == 0
    assert given_.optimum == 0.99
    assert given_.each.min() == pytest.approx(0.99 - best)
    assert experiment(replace(asked, optimum=0.1)).errors(runs)[0].optimum == best  # pyright: ignore[reportAttributeAccessIssue]
    mean = own.each.mean(axis=0)
    assert own.so_far.mean(axis=0)[2] == pytest.approx(mean[:3].mean())


# All of them

SHOWING = {
    "comparison": learners(ct_mle=0.95, enode=0.12, sac_tacos=0.6),
    "gap": gaps_rise,
    "width": widths(0.0),
    "convergence": errors(-0.5),
}


@pytest.mark.parametrize("name", NAMES)
def test_one_seed_decides_nothing(name):
    assert decisions(name, SHOWING[name], seeds=1)("") == {"not decided"}


@pytest.mark.parametrize("name", NAMES)
def test_findings_are_written_whole_and_read_back(name, tmp_path):
    asked = command(name, size="smoke", seeds=2)
    study = experiment(asked)
    plan = Plan.of(study.runs(asked))
    found = results(study.runs(asked), SHOWING[name])
    found[-1] = failed(found[-1])
    for seconds in (3.0, 7.0):  # the second time in place of the first
        found[0] = replace(found[0], seconds=seconds)
        write_findings(tmp_path / "findings", find(study, "ctmle reproduce", plan, found))
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
    assert [float(row["seed"]) for row in rows] == [result.config.seed for result in found]
    assert (rows[0]["seconds"], rows[-1]["status"]) == ("7.0", "failed")


def test_findings_that_cannot_be_written_leave_those_of_before(tmp_path, monkeypatch):
    asked = command("convergence", size="smoke")
    study = experiment(asked)
    plan, found = Plan.of(study.runs(asked)), results(study.runs(asked), errors(-0.5))
    place = write_findings(tmp_path / "findings", find(study, "first", plan, found))

    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr("ctmle.reproduce.findings.write_json", full)
    with pytest.raises(OSError, match="no space left"):
        write_findings(place, find(study, "second", plan, found))
    assert [path.name for path in tmp_path.iterdir()] == ["findings"]
    assert json.loads((place / "made_by.json").read_text())["command"] == "first"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scores", [lambda c, r: [0.0] * c.episodes, lambda c, r: [0.95] * c.episodes])
def test_figures_and_tables_of_runs_that_are_all_alike(name, scores, tmp_path):
    asked = command(name, size="smoke")
    study = experiment(asked)
    found = results(study.runs(asked), scores)
    save(study.figure(found), tmp_path / "figure.png")
    assert study.measured(found).rows
    assert {verdict.decision for verdict in study.verdicts(found)} <= {"not decided", "agrees", "disagrees"}


def test_a_cell_without_finished_runs_is_not_known(tmp_path):
    asked = command("gap", size="smoke")
    study = experiment(asked)
    found = [r for r in results(study.runs(asked), gaps_rise) if (r.config.sigma, r.config.gap) != (0.0, 0.5)]
    save(study.figure(found), tmp_path / "figure.png")
    assert study.measured(found).rows[0][2] == "not known"
    assert {v.decision for v in study.verdicts(found)} == {"not decided"}


# The command


def test_a_dry_run_says_what_there_is_to_do_and_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    main(["reproduce", "gap", "--environments", "pendulum", "--dry-run"])
    said = capsys.readouterr().out
    assert "ctmle reproduce gap --environments pendulum\n" in said
    assert "63 runs: 0 finished, 0 begun, 63 to do, at most " in said
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
    asked = _parse(shlex.split(line)[1:])
    assert _parse(shlex.split(spelled(asked))[1:]) == asked
    assert sorted(shlex.split(spelled(asked))) == sorted(shlex.split(line))


def test_a_real_experiment_and_again_with_nothing_left_to_do(tmp_path, capsys):
    line = ["reproduce", "convergence", "--size", "smoke", "--seeds", "1", "--out", str(tmp_path / "out")]
    main(line)
    assert "1 runs: 0 finished, 0 begun, 1 to do" in capsys.readouterr().out
    first = (tmp_path / "out" / "findings" / "verdict.md").read_text()
    assert "ctmle reproduce convergence --size smoke --seeds 1" in first
    main(line)
    assert "1 runs: 1 finished, 0 begun, 0 to do" in capsys.readouterr().out
    assert (tmp_path / "out" / "findings" / "verdict.md").read_text() == first
