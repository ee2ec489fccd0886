"""Which runs the experiments of the paper are made of."""

from collections import Counter

import pytest
from synthetic import SHOWING

from ctmle.checks import check_config
from ctmle.config import ReproduceCommand
from ctmle.lab.paper import experiment
from ctmle.lab.sweeps import Plan

NAMES = tuple(SHOWING)


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
    asked = ReproduceCommand(name, size=size)
    configs = experiment(asked).runs(asked)
    assert len(Plan.of(configs).runs) == len(configs) == runs  # no two alike
    for config in configs:
        check_config(config)


@pytest.mark.parametrize("name", NAMES)
def test_more_seeds_add_runs_and_change_none(name):
    few, many = ReproduceCommand(name, seeds=2), ReproduceCommand(name, seeds=3)
    there = experiment(few).runs(few)
    more = experiment(many).runs(many)
    assert all(config in more for config in there)
    assert {config.seed for config in more if config not in there} == {2}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", ["small", "smoke"])
def test_environments_and_presets_are_those_asked_for(name, size):
    asked = ReproduceCommand(name, size=size, environments=("acrobot", "cartpole"), preset="paper")
    configs = experiment(asked).runs(asked)
    assert list(dict.fromkeys(config.environment for config in configs)) == ["acrobot", "cartpole"]
    assert {config.preset for config in configs} == {"paper"}
    assert {config.observation for config in configs} == {"trig"}
    for config in configs:
        check_config(config)


def test_the_comparison_is_the_papers():
    asked = ReproduceCommand("comparison")
    configs = experiment(asked).runs(asked)
    assert {config.sigma for config in configs} == {2.0}
    assert {(c.environment, c.episodes) for c in configs} == {("pendulum", 5), ("cartpole", 15), ("acrobot", 15)}
    assert Counter(c.agent for c in configs) == {"ct-mle": 9, "enode": 9, "sac-tacos": 9}
    assert not any(config.stop_at_success for config in configs)


def test_the_grid_of_gaps_is_the_papers():
    asked = ReproduceCommand("gap", size="paper")
    configs = experiment(asked).runs(asked)
    assert sorted({config.sigma for config in configs}) == [0.0, 0.4, 0.8, 1.2, 1.6, 2.0]
    assert {config.gap for config in configs} == {2.0**-i for i in range(8)}
    assert {(c.environment, c.episodes) for c in configs} == {("pendulum", 15), ("cartpole", 30), ("acrobot", 25)}
    assert all(c.stop_at_success and not c.learner.optimism and c.agent == "ct-mle" for c in configs)


def test_widths_and_convergence_are_the_papers():
    wide, long = ReproduceCommand("width"), ReproduceCommand("convergence")
    hidden = [config.learner.dynamics_hidden for config in experiment(wide).runs(wide)]
    assert hidden[::3] == [(units,) * 3 for units in (150, 175, 200, 225, 250)]
    assert {(c.environment, c.sigma, c.gap, c.episodes) for c in experiment(long).runs(long)} == {
        ("pendulum", 2.0, 0.125, 15)
    }
