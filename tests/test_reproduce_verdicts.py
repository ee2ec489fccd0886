"""Verdicts of the experiments on worlds that are as the paper claims, and on others."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from synthetic import SHOWING, errors, gaps_fall, gaps_rise, learners, results, success_at, widths
from tiny import run_experiment

from ctmle.lab.cli.sweep import ReproduceCommand
from ctmle.lab.paper.base import above, below, is_value, within
from ctmle.lab.paper.convergence import errors_of, running_mean
from ctmle.lab.paper.findings import paper_experiment
from ctmle.lab.paper.gap import EpisodeGrid
from ctmle.lab.report.results import episodes_to_success
from ctmle.lab.report.statistics import Estimate

NAMES = tuple(SHOWING)
pytestmark = pytest.mark.usefixtures("few_resamples")


def decisions(name, scores, **settings):
    """Return a function from a piece of a claim's text to the decisions on it, for runs with such scores."""
    asked = ReproduceCommand(name, **settings)
    study = paper_experiment(name, asked.optimum)
    verdicts = study.verdicts(results(study.runs(asked), scores))
    assert {verdict.seeds for verdict in verdicts} == {asked.seeds or verdicts[0].seeds}
    return lambda piece: {verdict.decision for verdict in verdicts if piece in verdict.claim}


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
    def scores(settings, random):
        lead = {"pendulum": 0.1, "cartpole": 0.2, "acrobot": 0.5}[settings["environment"]]
        start, end = (0.1, 0.3 + lead) if settings["agent"] == "ct-mle" else (0.25, 0.3)
        noise = 0.03 if settings["agent"] == "ct-mle" else 0.002
        return np.linspace(start, end, settings["episodes"]) + random.normal(0, noise, settings["episodes"])

    said = decisions("comparison", scores, seeds=8)
    assert said("faster at first") == said("varies less") == said("is largest on acrobot") == {"agrees"}


# Gap


def test_gaps_that_rise_and_fall():
    rising, falling = decisions("gap", gaps_rise), decisions("gap", gaps_fall)
    for claim in ("the optimal gap rises", "episodes to success rise"):
        assert rising(claim) == {"agrees"}
        assert falling(claim) == {"disagrees"}
    assert rising("is not the finest") == {"agrees"}


@pytest.mark.parametrize("episode", [1, 99])
def test_gaps_that_make_no_difference_decide_nothing(episode):
    """Every run succeeds at once, or none ever does."""
    said = decisions("gap", lambda settings, random: success_at(episode, settings))
    assert said("") == {"not decided"}


def grid(cells, budget=5):
    """Make a grid of one sigma: a cell for each gap 1, 1/2, ..., with every seed's episodes to success; None: never."""
    runs = [
        run_experiment(gap=2.0**-i, seed=seed, episodes=budget, stop_at_success=True)
        for i, cell in enumerate(cells)
        for seed in range(len(cell))
    ]
    at = iter([episode for cell in cells for episode in cell])
    return EpisodeGrid.of("pendulum", results(runs, lambda settings, random: success_at(next(at) or 99, settings)))


def test_the_optimal_gap_is_the_largest_with_the_fewest_episodes():
    assert (
        grid([[5, 5], [2, 2], [1, 3], [3, 3]]).optimal_gap(2.0).value == 0.5
    )  # the mean counts, and of equals the largest
    assert grid([[5, 5], [2, 3], [1, 3], [3, 3]]).optimal_gap(2.0).value == 0.25
    assert grid([[None, 1], [3, 3]]).optimal_gap(2.0).value == 0.5  # no success counts as 6: a mean of 3.5
    assert grid([[None, 1], [4, 4]]).optimal_gap(2.0).value == 1.0
    assert grid([[None, None], [None, None]]).optimal_gap(2.0).value is None


def test_no_success_counts_as_one_episode_more_than_there_were():
    runs = results([run_experiment(episodes=7)] * 2, lambda settings, random: success_at(99, settings))
    assert episodes_to_success(runs).tolist() == [8, 8]
    one = grid([[None, 1]])
    assert one.means(one.cells).tolist() == [[3.5]]
    assert one.succeeded == ("1 of 2",)


# Width


def test_widths_that_make_a_difference_or_none():
    none, much = decisions("width", widths(0.0)), decisions("width", widths(0.35))
    for claim in ("curves are alike", "after two episodes", "final scores are alike", "on par"):
        assert none(claim) == {"agrees"}
        assert much(claim) == {"disagrees"}
    assert none("no improvement") == {"agrees"}
    assert much("no improvement") == {"disagrees"}
    assert decisions("width", widths(0.05))("final scores are alike") == {"not decided"}


# Convergence


@pytest.mark.parametrize(
    ("exponent", "falls", "as_root"),
    [(-0.5, "agrees", "agrees"), (-1.5, "agrees", "disagrees"), (0.3, "disagrees", "disagrees")],
)
def test_an_exponent_is_recovered_where_the_optimum_is_known(exponent, falls, as_root):
    said = decisions("convergence", errors(exponent), optimum=0.98)
    assert said("last policy: the error falls") == {falls}
    assert said("last policy: it falls as 1/sqrt(N)") == {as_root}


def test_errors_are_measured_from_the_best_that_is_known():
    runs = results(paper_experiment("convergence").runs(ReproduceCommand("convergence", seeds=2)), errors(-0.5))
    best = max(max(result.scores) for result in runs)
    (own, from_own), (given_, from_given), (low, _) = (errors_of(runs, optimum) for optimum in (None, 0.99, 0.1))
    assert own == best
    assert from_own.min() == 0
    assert given_ == 0.99
    assert from_given.min() == pytest.approx(0.99 - best)
    assert low == best
    assert running_mean(from_own).mean(axis=0)[2] == pytest.approx(from_own.mean(axis=0)[:3].mean())


# All of them


@pytest.mark.parametrize("name", NAMES)
def test_one_seed_decides_nothing(name):
    assert decisions(name, SHOWING[name], seeds=1)("") == {"not decided"}
