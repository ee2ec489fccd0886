"""The runs that the paper's experiments are made of."""

from collections import Counter

import pytest
from synthetic import SHOWING

from ctmle.lab.cli.sweep import ReproduceCommand
from ctmle.lab.experiment import Experiment
from ctmle.lab.paper.findings import paper_experiment
from ctmle.lab.sweeps import Plan

NAMES = tuple(SHOWING)


def runs_of(name, **options) -> list[Experiment]:
    return paper_experiment(name).runs(ReproduceCommand(name, **options))


def values(runs: list[Experiment], *names: str) -> set[tuple]:
    """Return the combinations of values that these options have."""
    return {tuple(run.settings[name] for name in names) for run in runs}


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
def test_plans_have_the_promised_number_of_runs(name, size, runs):
    found = runs_of(name, size=size)
    assert len(Plan.of(found).runs) == len(found) == runs  # no two are equal


@pytest.mark.parametrize("name", NAMES)
def test_more_seeds_add_runs_and_change_none(name):
    few, many = Plan.of(runs_of(name, seeds=2)).runs, Plan.of(runs_of(name, seeds=3)).runs
    assert {run.name for run in few} < {run.name for run in many}
    assert {run.settings["seed"] for run in many if run not in few} == {2}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", ["small", "smoke"])
def test_environments_and_presets_are_those_asked_for(name, size):
    found = runs_of(name, size=size, environments=("acrobot", "cartpole"), preset="paper")
    assert list(dict.fromkeys(run.environment for run in found)) == ["acrobot", "cartpole"]
    assert values(found, "preset", "observation") == {("paper", "trig")}


def test_the_comparison_is_the_papers():
    found = runs_of("comparison")
    assert values(found, "sigma", "stop_at_success") == {(2.0, False)}
    assert values(found, "environment", "episodes") == {("pendulum", 5), ("cartpole", 15), ("acrobot", 15)}
    assert Counter(run.algorithm for run in found) == {"ct-mle": 9, "enode": 9, "sac-tacos": 9}


def test_the_grid_of_gaps_is_the_papers():
    found = runs_of("gap", size="paper", seeds=1)
    assert values(found, "sigma", "gap") == {
        (sigma, 2.0**-i) for sigma in (0.0, 0.4, 0.8, 1.2, 1.6, 2.0) for i in range(8)
    }
    assert values(found, "environment", "episodes") == {("pendulum", 15), ("cartpole", 30), ("acrobot", 25)}
    assert values(found, "stop_at_success", "optimism", "agent") == {(True, False, "ct-mle")}


def test_widths_and_convergence_are_the_papers():
    hidden = [run.settings["dynamics_hidden"] for run in runs_of("width")]
    assert hidden[::3] == [(units,) * 3 for units in (150, 175, 200, 225, 250)]
    assert values(runs_of("convergence"), "environment", "sigma", "gap", "episodes") == {("pendulum", 2.0, 0.125, 15)}
