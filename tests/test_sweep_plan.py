"""Plans of sweeps: the runs that a file asks for, their names, and the workers that get them."""

import json
import math
import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from tiny import run_experiment

from ctmle.lab.experiment import from_settings, start
from ctmle.lab.sweeps import Plan, PlannedRun
from ctmle.lab.sweeps.folder import Pace
from ctmle.lab.sweeps.plan import NOT_LEARNED_FROM, content_of, kind_of, settings_of
from ctmle.lab.sweeps.plan_file import draws, read_plan
from ctmle.lab.sweeps.sweep import Waiting
from ctmle.registry import AGENTS

GRID = """
[base]
preset = "quick"
[base.learner]
gradient_clip = 5.0
[grid]
environment = ["pendulum", "acrobot"]
agent = ["ct-mle", "sac-tacos"]
seed = [0, 1, 2]
"""


@pytest.fixture
def plan(tmp_path: Path):
    def read(text: str) -> Plan:
        (tmp_path / "sweep.toml").write_text(text)
        return read_plan(tmp_path / "sweep.toml")

    return read


def test_a_grid_is_every_combination_each_from_its_own_preset(plan):
    runs = [run.settings for run in plan(GRID).runs]
    assert len(runs) == 12
    assert {(own["environment"], own["agent"], own["seed"]) for own in runs} == {
        (e, a, s) for e in ("pendulum", "acrobot") for a in ("ct-mle", "sac-tacos") for s in (0, 1, 2)
    }
    for own in runs:
        preset = start(own["environment"], own["agent"], "quick")
        assert from_settings(own) == preset.changed({"seed": own["seed"], "gradient_clip": 5.0})


def test_listed_runs_take_part_in_the_grid_and_may_have_their_own(plan):
    found = plan("""
        [grid]
        sigma = [0, 2.0]
        [[runs]]
        environment = "cartpole"
        [[runs]]
        environment = "acrobot"
        episodes = 4
        [runs.grid]
        seed = [5, 6]
        policy_hidden = [[150, 150], [250, 250]]
    """)
    names = ("environment", "sigma", "seed", "policy_hidden")
    rows = [tuple(run.settings[name] for name in names) for run in found.runs]
    hidden = settings_of(start("cartpole"))["policy_hidden"]
    assert rows == [("cartpole", 0.0, 0, hidden), ("cartpole", 2.0, 0, hidden)] + [
        ("acrobot", sigma, seed, widths) for sigma in (0.0, 2.0) for seed in (5, 6)
        for widths in ([150, 150], [250, 250])
    ]  # fmt: skip
    assert found.varying == ("sigma", "policy_hidden")


def test_the_same_run_asked_for_twice_is_one(plan):
    assert len(plan("[grid]\nsigma = [2, 2.0, 1]\nseed = [0, 0]").runs) == 2


def test_names_tell_what_varies_and_stay_when_seeds_are_added(plan):
    few, more = plan(GRID), plan(GRID.replace("[0, 1, 2]", "[0, 1, 2, 3]"))
    names = {run.name for run in few.runs}
    assert names < {run.name for run in more.runs}
    assert len(names) == 12
    assert all(re.fullmatch(r"(pendulum|acrobot)-(ct-mle|sac-tacos)-quick-seed\d-[0-9a-f]{12}", n) for n in names)
    networks = "[base]\nmodel = 'ensemble'\n[grid]\n"
    words = plan(f"{networks}solver = ['rk4', 'dopri5']\noptimism = [true, false]\nensemble = [5, 6]").runs[-1].name
    assert re.fullmatch(r"pendulum-ct-mle-ensemble6-dopri5-no_optimism-seed0-\w+", words)
    wide = plan(f"{networks}policy_rate = [1e-5, 0.1]\ndynamics_hidden = [{[65536] * 60}, [1]]")
    assert all(len(run.name) < 200 and "/" not in run.name for run in wide.runs)
    assert len({run.name for run in wide.runs}) == 4


@pytest.mark.parametrize("path", sorted((Path(__file__).parent.parent / "sweeps").glob("*.toml")), ids=lambda p: p.stem)
def test_the_sweeps_of_the_repository_can_be_run(path):
    assert len(read_plan(path).runs) > 1


# The content that a run is known by.

RUN = settings_of(run_experiment())


@pytest.mark.parametrize("agent", AGENTS.names)
def test_the_digest_sees_every_setting_that_a_run_learns_from_and_no_other(agent):
    own = settings_of(start("pendulum", agent))
    for name, value in own.items():
        after = content_of({**own, name: "another value" if value is None else [value]})
        assert (after == content_of(own)) == (name in NOT_LEARNED_FROM), name


@given(st.floats(0, 10), st.floats(0, 10))
def test_the_digest_tells_numbers_apart_to_the_last_bit(a, b):
    one, other = (content_of({**RUN, "sigma": sigma}) for sigma in (a, b))
    assert (one == other) == (a == b)


@given(st.integers(0, 100))
def test_the_digest_does_not_mind_how_a_number_is_written(n):
    assert content_of({**RUN, "sigma": n}) == content_of({**RUN, "sigma": float(n)})


@settings(max_examples=10)
@given(st.randoms(use_true_random=False))
def test_the_order_of_keys_in_a_file_does_not_matter(tmp_path_factory, chance: random.Random):
    base = {"sigma": 1.0, "episodes": 3, "learner": {"ensemble": 4, "chunk": 10, "model": "ensemble"}, "gap": 0.25}
    grid = {"seed": [0, 1], "policy_rate": [1e-3, 1e-2], "evaluation": {"warm_up": [1.0, 2.0]}}
    draw = {"samples": 2, "seed": 3, "dynamics_rate": {"low": 1e-4, "high": 1e-2, "log": True}, "particles": [20, 40]}
    content = {"base": base, "grid": grid, "random": draw}

    def shuffled(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        items = list(value.items())
        chance.shuffle(items)
        return {name: shuffled(inner) for name, inner in items}

    path = tmp_path_factory.mktemp("order") / "sweep.json"
    path.write_text(json.dumps(content))
    names = {run.name for run in read_plan(path).runs}
    path.write_text(json.dumps(shuffled(content)))
    assert {run.name.rpartition("-")[2] for run in read_plan(path).runs} == {n.rpartition("-")[2] for n in names}
    assert len(names) == 16


def test_runs_of_one_kind_differ_in_their_seeds_alone():
    assert kind_of(RUN) == kind_of({**RUN, "seed": 2, "out": "elsewhere"})
    assert kind_of(RUN) != kind_of({**RUN, "sigma": 1.0})


# Random search.


def test_draws_have_the_laws_that_were_asked_for():
    table = {
        "sigma": {"low": 1, "high": 3},
        "policy_rate": {"low": 1e-4, "high": 1e-2, "log": True},
        "ensemble": {"low": 2, "high": 5},
        "particles": {"low": 1, "high": 8, "log": True},
        "solver": ["rk4", "dopri5"],
    }
    samples = draws({"samples": 4000, **table})
    column = {name: [sample[name] for sample in samples] for name in table}
    error = 5 / math.sqrt(4000)  # five standard errors of a share, or more
    assert all(1 <= value <= 3 for value in column["sigma"])
    assert sum(value < 2 for value in column["sigma"]) / 4000 == pytest.approx(0.5, abs=error)
    assert sum(value < 1e-3 for value in column["policy_rate"]) / 4000 == pytest.approx(0.5, abs=error)
    for count in (2, 3, 4, 5):
        assert column["ensemble"].count(count) / 4000 == pytest.approx(0.25, abs=error)
    for count in range(1, 9):  # log-uniform on [1, 9): a whole number stands for all up to the next
        share = math.log((count + 1) / count) / math.log(9)
        assert column["particles"].count(count) / 4000 == pytest.approx(share, abs=error)
    assert column["solver"].count("rk4") / 4000 == pytest.approx(0.5, abs=error)


@given(st.integers(1, 30), st.integers(0, 1000))
def test_more_samples_and_more_settings_leave_the_first_ones_as_they_were(samples, seed):
    rate = {"low": 1e-4, "high": 1e-2, "log": True}
    few = draws({"samples": samples, "seed": seed, "policy_rate": rate})
    more = draws({"seed": seed, "particles": [10, 20], "policy_rate": rate, "samples": samples + 5})
    assert [sample["policy_rate"] for sample in more[:samples]] == [sample["policy_rate"] for sample in few]
    other = draws({"samples": samples, "seed": seed + 1, "policy_rate": rate})
    assert other != few


def test_samples_meet_the_grid(plan):
    found = plan("[random]\nsamples = 3\nsigma = {low = 0, high = 2}\n[grid]\nseed = [0, 1]")
    sigmas = {run.settings["sigma"] for run in found.runs}
    assert len(found.runs) == 6
    assert len(sigmas) == 3
    assert all(isinstance(sigma, float) and sigma not in (0.0, 1.0, 2.0) for sigma in sigmas)


# The workers that get the runs, and the time left.


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30), st.lists(st.integers(0, 2), min_size=30, max_size=30))
def test_every_run_is_given_once_and_workers_keep_to_their_kinds(sigmas, workers):
    runs = [PlannedRun(f"run {number}", {}, f"kind {sigma}") for number, sigma in enumerate(sigmas)]
    waiting, given_out, last = Waiting(runs), [], {}
    for worker in workers[: len(runs)]:
        left = {run.kind for run in runs if run not in given_out}
        run = waiting.take(worker)
        given_out.append(run)
        assert run.kind == last.get(worker, run.kind) or last[worker] not in left
        last[worker] = run.kind
    assert len(waiting) == 0
    assert sorted(run.name for run in given_out) == sorted(run.name for run in runs)


def test_two_workers_begin_with_two_kinds():
    plan = Plan.of(run_experiment(sigma=sigma, seed=seed) for sigma in (0.0, 1.0) for seed in range(3))
    waiting = Waiting(plan.runs)
    assert [waiting.take(worker).settings["sigma"] for worker in (0, 1, 0, 1, 0, 1)] == [0.0, 1.0] * 3


def test_the_time_left_is_measured_by_kind_and_unknown_at_first():
    plan = Plan.of(run_experiment(sigma=sigma, seed=seed) for sigma in (0.0, 1.0) for seed in range(3))
    pace, kinds = Pace(plan.runs), [run.kind for run in plan.runs]
    assert pace.seconds_left is None
    pace.measured(kinds[0], 10.0)
    pace.ended(kinds[0])
    assert pace.seconds_left == 5 * 10.0  # the other kind is taken to be alike, until it is known
    pace.measured(kinds[3], 40.0)
    pace.ended(kinds[3])
    assert pace.seconds_left == 2 * 10.0 + 2 * 40.0
    pace.ended(kinds[4])  # failed: one run fewer, and nothing learned about how long they take
    assert pace.seconds_left == 2 * 10.0 + 40.0


def test_a_plan_has_at_least_one_run():
    with pytest.raises(ValueError, match="at least one run"):
        Plan.of([])


def test_an_environment_of_the_users_own_has_a_short_name(tmp_path):
    (tmp_path / "tank.py").write_text("from ctmle.envs.pendulum import Pendulum\nclass Tank(Pendulum):\n    pass\n")
    (run,) = Plan.of([from_settings({"environment": f"{tmp_path}/tank.py:Tank"})]).runs
    assert re.fullmatch(r"tank-ct-mle-seed0-\w+", run.name)
