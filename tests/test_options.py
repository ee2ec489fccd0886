"""Settings and their limits, flat options of a tree of parts, and names of parts."""

import math
import zlib
from dataclasses import dataclass, replace
from typing import Any, get_args

import jax
import pytest
from hypothesis import given, strategies as st
from tiny import AGENT, BASIS, ODE, TACOS, run_experiment

from ctmle import agents, envs
from ctmle.models import EulerCovariance, LinearisedMoments, SDELearner, SlicedScoreMatching
from ctmle.options import apply, build, describe, docs_of, flat, variant_options, walk
from ctmle.registry import AGENTS, ENVIRONMENTS, REGISTRIES, Registry
from ctmle.settings import (
    LARGEST_COUNT,
    Count,
    CountFromZero,
    Finite,
    NonNegative,
    OpenShare,
    Part,
    Positive,
    SettingError,
    Share,
    Times,
    Widths,
    option,
    problem,
)
from ctmle.training import Stage

ENSEMBLE = apply(agents.CTMLE(), {"model": "ensemble"})
ANY_FLOAT = st.floats(allow_nan=True, allow_infinity=True)


@pytest.mark.parametrize(
    ("hint", "allows"),
    [
        (Finite, math.isfinite),
        (Positive, lambda value: math.isfinite(value) and value > 0),
        (NonNegative, lambda value: math.isfinite(value) and value >= 0),
        (Share, lambda value: 0 <= value <= 1),
        (OpenShare, lambda value: 0 < value < 1),
    ],
    ids=["finite", "positive", "non-negative", "share", "open share"],
)
@given(st.one_of(ANY_FLOAT, st.integers(-3, 3), st.sampled_from([0.0, 1.0, -0.0])))
def test_numbers_are_allowed_inside_their_limits_only(hint, allows, value):
    assert (problem(hint, value) is None) == allows(value)


@given(st.one_of(st.integers(-(2**40), 2**40), st.sampled_from([0, 1, LARGEST_COUNT, LARGEST_COUNT + 1])))
def test_counts_are_whole_and_start_at_one_or_zero(value):
    assert (problem(Count, value) is None) == (1 <= value <= LARGEST_COUNT)
    assert (problem(CountFromZero, value) is None) == (0 <= value <= LARGEST_COUNT)


@given(st.lists(st.integers(-2, 2**17), max_size=4))
def test_widths_are_one_or_more_positive_numbers(values):
    assert (problem(Widths, tuple(values)) is None) == (len(values) > 0 and all(1 <= v <= 65_536 for v in values))


@pytest.mark.parametrize("hint", [Finite, Positive, Count, Share, Widths, Times, bool, str, Positive | None])
@pytest.mark.parametrize("value", [(), [], {}, b"x", object(), ("a",), "", "\0"])
def test_values_of_another_type_are_refused(hint, value):
    assert problem(hint, value) is not None


@pytest.mark.parametrize(("hint", "value"), [(Positive, True), (Count, True), (Count, 2.0), (bool, 1), (Count, None)])
def test_lookalikes_are_refused(hint, value):
    assert problem(hint, value) is not None


def test_none_is_allowed_where_the_type_says_so():
    assert problem(Positive | None, None) is None
    assert problem(Positive | None, 2.0) is None
    assert problem(Positive | None, -2.0) == "a positive number"


def test_an_error_names_the_class_in_python_and_the_option_on_the_command_line():
    with pytest.raises(SettingError, match=r"^SDELearner\.rate must be a positive number, not -1\.0$") as caught:
        SDELearner(rate=-1.0)
    assert isinstance(caught.value, ValueError)
    assert caught.value.on_command_line == "--dynamics-rate must be a positive number, not -1.0"
    with pytest.raises(SettingError, match=r"not 'a+\.\.\.$"):
        apply(SDELearner(), {"dynamics_rate": "a" * 500})


def test_equal_parts_are_one_key_for_jit():
    assert replace(AGENT) == AGENT
    assert hash(AGENT) == hash(replace(AGENT))
    assert apply(AGENT, {"chunk": 5}) != AGENT
    assert jax.tree.leaves(AGENT) == [AGENT]


@dataclass(frozen=True)
class Inner(Part):
    """A part of a part."""

    size: Positive = option(1.0, "inner_size")
    """How large it is."""


@dataclass(frozen=True)
class Outer(Part):
    """A part with a part that can be left out."""

    inner: Inner | None = None
    """Whether there is one."""
    count: Count = 3
    """How many,
    over two lines."""


def test_options_have_flat_names_and_their_docstrings():
    assert flat(Outer()) == {"inner": False, "count": 3}
    assert flat(Outer(Inner(2.0))) == {"inner": True, "inner_size": 2.0, "count": 3}
    assert docs_of(Outer) == {"inner": "Whether there is one.", "count": "How many, over two lines."}
    found = {o.name: o for o in walk(Outer(Inner()))}
    assert found["inner_size"].path == ("inner", "size")
    assert found["inner_size"].help == "How large it is."


def test_a_part_can_be_left_out_and_put_back():
    assert apply(Outer(Inner()), {"inner": False}) == Outer()
    assert apply(Outer(), {"inner": True, "inner_size": 5}) == Outer(Inner(5.0))
    assert apply(Outer(Inner(4.0)), {"inner": True}) == Outer(Inner(4.0))
    with pytest.raises(SettingError, match=r"Outer\.inner must be true or false, not 'yes'"):
        apply(Outer(), {"inner": "yes"})
    with pytest.raises(ValueError, match=r"^--inner-size belongs to --inner: add that, or leave it out"):
        apply(Outer(), {"inner_size": 5.0})


def test_a_choice_makes_another_part_with_its_own_options():
    changes = {"law": "euler", "solver": "dopri5", "objective": "score-matching", "projections": 3}
    agent = apply(ENSEMBLE, changes)
    assert apply(agents.CTMLE(), {**changes, "model": "ensemble"}) == agent  # a choice inside of another one
    assert agent.learner.law == EulerCovariance("dopri5")
    assert agent.learner.objective == SlicedScoreMatching(3)
    assert flat(agent)["law"] == "euler"
    again = apply(agent, {"law": "euler"})
    assert again.learner.law is agent.learner.law
    assert apply(agent, {"law": "moments"}).learner.law == LinearisedMoments("dopri5")  # shared settings stay
    hints = {o.name: o.hint for o in walk(ENSEMBLE)}
    assert get_args(hints["objective"]) == ("likelihood", "score-matching")


def test_options_of_parts_that_are_not_in_use_are_listed_apart():
    assert {"projections", "gap_weighted", "waves"} <= variant_options(ENSEMBLE).keys()
    assert "projections" not in flat(ENSEMBLE)
    assert "projections" not in variant_options(apply(ENSEMBLE, {"objective": "score-matching"}))
    assert {"ensemble", "dynamics_rate"} <= variant_options(agents.CTMLE()).keys()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"model": "ensemble", "dynamics_rat": 1e-3},
            "there is no setting 'dynamics_rat': did you mean 'dynamics_rate'?",
        ),
        ({"zzzz": 1}, "there is no setting 'zzzz'"),
        ({"dynamics_rate": 1e-3}, "--dynamics-rate belongs to --model ensemble: add that, or leave it out"),
        ({"model": "ensemble", "waves": 9}, "--waves belongs to --model basis: add that, or leave it out"),
        (
            {"model": "ensemble", "projections": 2},
            "--projections belongs to --objective score-matching: add that, or leave it out",
        ),
        ({"model": "ensemble", "optimism": False, "eta_base": 1.0}, "--eta-base belongs to --optimism"),
        ({"law": "eulr"}, "no law is called 'eulr': did you mean 'euler'?"),
        ({"model": "ensemble", "ensemble": 2.5}, "SDELearner.members must be a whole number of at least 1, not 2.5"),
        ({"model": "ensemble", "control": "open"}, "SDELearner.control must be one of closed-loop, hold, not 'open'"),
    ],
)
def test_options_that_cannot_be_are_refused_with_what_to_do(changes, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - its text is compared below
        apply(agents.CTMLE(), changes)
    assert str(caught.value).startswith(message)


def test_lists_become_tuples_and_whole_numbers_floats():
    agent = apply(ENSEMBLE, {"dynamics_hidden": [8, 8], "discount_time": 2})
    assert agent.learner.model.hidden == (8, 8)
    assert isinstance(agent.improver.discount_time, float)


@pytest.mark.parametrize("agent", [AGENT, BASIS, ODE, TACOS], ids=["ct-mle", "ct-mle basis", "enode", "sac-tacos"])
def test_flat_options_rebuild_the_agent(agent):
    fresh = {AGENT: agents.CTMLE(), BASIS: agents.CTMLE(), ODE: agents.ENODE(), TACOS: agents.SacTacos()}[agent]
    assert apply(fresh, flat(agent)) == agent
    assert apply(agent, flat(agent)) is agent


ANY_MODEL = {
    "law": st.sampled_from(["moments", "euler"]),
    "trajectory_seconds": st.one_of(st.none(), st.floats(0.1, 1e3)),
    "policy_rate": st.floats(1e-6, 1.0),
}
CHANGES = st.fixed_dictionaries(
    {"model": st.just("ensemble")},
    optional={
        "ensemble": st.integers(1, 50),
        "dynamics_hidden": st.lists(st.integers(1, 300), min_size=1, max_size=3).map(tuple),
        "objective": st.sampled_from(["likelihood", "score-matching"]),
        "optimism": st.booleans(),
        **ANY_MODEL,
    },
) | st.fixed_dictionaries({}, optional={"waves": st.integers(1, 300), "kinematics": st.booleans(), **ANY_MODEL})


@given(CHANGES)
def test_any_tree_of_parts_survives_its_description(changes):
    agent = apply(agents.CTMLE(), changes)
    assert build(describe(agent)) == agent
    assert {name: flat(agent)[name] for name in changes} == changes


def test_environments_are_described_by_their_settings():
    env = envs.Pendulum(sigma=0.5, horizon=3.0, start="uniform")
    described = describe(env)
    assert described["part"] == "ctmle.envs.pendulum:Pendulum"
    of_all = {"hold": None, "sensor_noise": 0.0}
    own = {"sigma": 0.5, "unit": 0.1, "horizon": 3.0, "correlation": 0.0, "start": "uniform"}
    assert described["settings"] == of_all | own
    assert build(described) == env
    assert apply(env, {"sigma": 1}) == envs.Pendulum(sigma=1.0, horizon=3.0, start="uniform")
    with pytest.raises(SettingError, match=r"Pendulum\.start must be one of hanging, uniform, not 'upright'"):
        apply(env, {"start": "upright"})


def test_parts_that_are_not_trusted_are_not_imported():
    described = {"part": "os:system", "settings": {}}
    with pytest.raises(ValueError, match="it names os:system, which is not part of ctmle"):
        build(described, trusted=lambda path: path.startswith("ctmle."))


def test_an_experiment_spreads_its_options_over_all_its_parts():
    experiment = run_experiment(sigma=0.5, schedule="uniform", gap=0.25, seed=3, ensemble=4)
    parts: Any = (experiment.env, experiment.schedule, experiment.training, experiment.agent.learner)  # pyright: ignore
    assert [parts[0].sigma, parts[1].gap, parts[2].seed, parts[3].members] == [0.5, 0.25, 3, 4]
    with pytest.raises(ValueError, match="did you mean 'episodes'"):
        run_experiment(episods=3)


def test_parts_are_registered_by_name():
    names = Registry("thing", "ctmle.things", {"pendulum": "ctmle.envs.pendulum:Pendulum"})
    names.register("cart", "ctmle.envs.cartpole:CartPole")
    names.register("cart", "ctmle.envs.cartpole:CartPole")
    assert names.names == ("pendulum", "cart")
    assert names.load("cart") is envs.CartPole
    assert names.name_of(envs.CartPole) == "cart"
    assert names.name_of(envs.Acrobot) is None
    with pytest.raises(ValueError, match=r"thing 'cart' is registered already as ctmle\.envs\.cartpole:CartPole"):
        names.register("cart", "elsewhere:Cart")
    with pytest.raises(ValueError, match=r"no thing is called 'pendulm': did you mean 'pendulum'\?"):
        names.load("pendulm")
    with pytest.raises(ValueError, match="no thing is called 'xyz': there are pendulum, cart"):
        names.check("xyz")


def test_every_registered_part_can_be_imported_and_finds_its_name():
    for registry in REGISTRIES:
        for name in registry.names:
            part = registry.load(name)
            assert not isinstance(part, type) or registry.name_of(part) == name
    assert set(AGENTS.names) == {"ct-mle", "enode", "sac-tacos"}
    assert "linear-quadratic" in ENVIRONMENTS.names


def test_streams_of_named_stages_follow_from_their_names():
    """Golden values: another stream would change every result of a stage that has been published."""
    stages = [Stage.named(name, 10) for name in ("reward", "survival", "disagreement")]
    assert [stage.stream for stage in stages] == [zlib.crc32(s.name.encode()) & 0x7FFFFFFF for s in stages]
    assert [stage.stream for stage in stages] == [1322349139, 1734726861, 772426164]
    assert Stage.named("reward", 99).stream == stages[0].stream
    assert all(stage.stream > 100 for stage in stages)  # far from the numbers of the streams in tables
