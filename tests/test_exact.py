"""Tests of exact CT-MLE: sets and choices by brute force, coverage, regret, and the run folder."""

import csv
import json
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from ctmle.lab.cli.exact import ExactCommand, cases_of, checked, run_exact
from ctmle.schedules import Equidistant, Looks
from ctmle.theory import theory_beta, ville_beta
from ctmle.theory.exact import (
    ExactCTMLE,
    ExactState,
    feedback,
    given_class,
    hidden_arm,
    play,
    rotation,
    saturated,
    stack,
)
from ctmle.theory.exact.study import slope, wilson
from ctmle.training.double import in_double


def agent_on(models, beta, chained=False):
    return in_double(lambda: ExactCTMLE(models, jnp.asarray(float(beta)), chained))()


def seeds(n, seed=0):
    return jax.random.split(jax.random.key(seed), n)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("chained", [False, True])
def test_likelihoods_are_sums_of_normal_log_densities_over_the_right_pairs(chained):
    models = hidden_arm(0.3, 0.2, arms=2)
    agent = agent_on(models, 10.0, chained)
    times, states = np.array([0, 0.3, 1.0, 1.9, 2.0]), np.array([0, 0.1, -0.2, 0.4, 0.3])
    looks = Looks(jnp.asarray(times), random=True)
    observe = jax.jit(lambda states: agent.observe(agent.init(jax.random.key(0)), jnp.asarray(1), looks, states))
    state = observe(states[:, None])

    def log_density(theta, i, j):
        gap = times[j] - times[i]
        mean = states[i] * np.exp(-gap) + theta * (1 - np.exp(-gap))
        return norm.logpdf(states[j], mean, 0.3 * np.sqrt((1 - np.exp(-2 * gap)) / 2))

    pairs = [(0, 1), (1, 2), (2, 3), (3, 4)] if chained else [(0, 2), (2, 4)]
    thetas = [theta for _ in range(3) for theta in (0, 0.2, 0.4)]  # arm 1 varies fastest
    grid = np.array([sum(log_density(theta, i, j) for i, j in pairs) for theta in thetas])
    np.testing.assert_allclose(state.grid, grid - grid.max(), rtol=1e-9, atol=1e-9)
    extra = np.array([sum(log_density(theta, i, j) for i, j in [(0, 1), (2, 3)]) for theta in thetas])
    np.testing.assert_allclose(state.extra, np.zeros(9) if chained else extra - extra.max(), rtol=1e-9, atol=1e-9)


@pytest.mark.usefixtures("x64")
def test_choice_is_the_brute_force_argmax_over_both_sets():
    models, schedule = hidden_arm(0.3, 0.2, arms=2), Equidistant(1.0)
    random, empties = np.random.default_rng(0), 0
    propose = jax.jit(lambda state, beta: ExactCTMLE(models, beta).propose(state, schedule)[1])
    for i in range(60):
        grid, extra = -random.exponential(3, 9), -random.exponential(3, 9)
        beta = float(random.uniform(0.5, 6))
        state = ExactState(jnp.asarray(grid), jnp.asarray(extra), jax.random.key(i))
        choice = propose(state, jnp.asarray(beta))
        allowed = [m for m in range(9) if grid[m] >= grid.max() - beta and extra[m] >= extra.max() - beta]
        assert bool(choice.empty) == (not allowed)
        empties += not allowed
        allowed = allowed or [int(np.argmax(grid + extra))]
        best = max(float(models.values[m, u]) for m in allowed for u in range(2))
        assert float(models.values[choice.model, choice.policy]) == pytest.approx(best, abs=1e-9)
        assert int(choice.model) in allowed
    assert 0 < empties < 60


@pytest.mark.usefixtures("x64")
def test_ties_between_policies_are_broken_evenly():
    models = hidden_arm(0.3, 0.2)
    agent, schedule = agent_on(models, 10.0), Equidistant(1.0)
    first = jax.jit(jax.vmap(lambda key: agent.propose(agent.init(key), schedule)[1].policy))(seeds(2000))
    shares = np.bincount(np.asarray(first), minlength=4) / 2000
    np.testing.assert_allclose(shares, 0.25, atol=0.05)


def test_coverage_of_both_sets_over_two_hundred_seeds():
    models, episodes, delta = hidden_arm(0.2, 0.1), 200, 0.1
    beta = theory_beta(episodes, np.log(models.models), delta)
    ville = ville_beta(models.models, delta)
    result = play(stack([agent_on(models, b) for b in (beta, ville, 0.5)]), Equidistant(1.0), episodes, seeds(200))
    both = np.asarray(result.grid_covers & result.extra_covers).all(axis=-1).mean(axis=-1)
    assert both[0] >= 1 - delta
    assert both[1] >= 1 - delta
    assert both[2] < 1 - delta, "a radius of 0.5 is too small: coverage must be able to fail"


def test_regret_is_lower_at_low_noise_on_the_same_class():
    episodes = 200
    agents = [agent_on(hidden_arm(noise, 0.15), theory_beta(episodes, np.log(81), 0.1)) for noise in (0.05, 0.3)]
    regret = np.asarray(play(stack(agents), Equidistant(1.0), episodes, seeds(50)).regret).sum(axis=-1)
    low, high = ((r.mean(), 1.96 * r.std(ddof=1) / np.sqrt(len(r))) for r in regret)
    assert low[0] + low[1] < high[0] - high[1]


def test_under_aliasing_random_looks_decide_everything():
    models, episodes = rotation(0.1, 1.0), 100
    beta = theory_beta(episodes, np.log(models.models), 0.1)
    worst = float(models.values[models.truth, 0] - models.values[models.truth, 1]) * episodes
    for schedule, identified in ((Equidistant(1.0), True), (Equidistant(0.5, random_looks=False), False)):
        regret = np.asarray(play(stack([agent_on(models, beta)]), schedule, episodes, seeds(8)).regret).sum(axis=-1)
        assert np.all(regret < 0.2 * worst) if identified else np.allclose(regret, worst, rtol=1e-3)


@pytest.mark.parametrize("make", [feedback, saturated])
def test_other_classes_find_the_best_policy(make):
    models = make(0.3)
    beta = ville_beta(models.models, 0.1)
    result = play(stack([agent_on(models, beta)]), Equidistant(1.0), 60, seeds(8))
    assert np.asarray(result.regret)[0, :, -5:].mean() < 0.02
    assert np.asarray(result.grid_covers).all(axis=-1).mean() >= 0.75


def test_a_class_of_your_own_needs_only_densities_and_values():
    def log_density(model, policy, x, y, gap):
        drift = jnp.where(policy == model, 1.0, 0.0)
        return jnp.sum(-0.5 * ((y - x - drift * gap) ** 2 / gap + jnp.log(2 * jnp.pi * gap)))

    def sample(key, policy, x, gap):
        return x + jnp.where(policy == 2, 1.0, 0.0) * gap + jnp.sqrt(gap) * jax.random.normal(key, x.shape)

    models = given_class(np.eye(3), log_density, start=np.zeros(1), horizon=4.0, truth=2, sample=sample)
    result = play(stack([agent_on(models, ville_beta(3, 0.1))]), Equidistant(1.0), 60, seeds(16))
    assert np.mean(np.asarray(result.policy)[0, :, -10:] == 2) > 0.9
    with pytest.raises(ValueError, match="divide the reward"):
        given_class(np.full((1, 1), 2.0), log_density, start=np.zeros(1), horizon=1.0)
    with pytest.raises(ValueError, match="one of the 3 models"):
        given_class(np.eye(3), log_density, start=np.zeros(1), horizon=1.0, truth=3)


def test_slope_and_share():
    n = np.arange(1.0, 501)
    assert slope(np.sqrt(n)) == pytest.approx(0.5)
    assert slope(np.ones(500)) == pytest.approx(0.0, abs=1e-9)
    assert wilson(200, 200)[0] == pytest.approx(0.98116, abs=1e-4)


def test_run_folder_is_whole_and_the_same_for_one_seed(tmp_path, monkeypatch):
    command = checked(
        ExactCommand(noises=(0.2,), separations=(0.1, 0.3), gaps=(2.0,), gap=2.0, episodes=12, seeds=3, gap_seeds=2)
    )
    reported = []
    folder, _ = run_exact(
        replace(command, out=str(tmp_path / "a")), lambda done, total, case: reported.append((done, total))
    )
    assert {path.name for path in folder.iterdir()} == {
        "config.json", "instances.csv", "worst.csv", "regret.png", "confidence.png", "gap.png", "separation.png",
    }  # fmt: skip
    assert reported == [(i, 4) for i in range(1, 5)]
    monkeypatch.setattr("ctmle.theory.exact.plots.plot_results", lambda *_: {})  # figures take most of the time
    again, _ = run_exact(replace(command, out=str(tmp_path / "b")))
    for name in ("instances.csv", "worst.csv"):
        assert (folder / name).read_bytes() == (again / name).read_bytes()
    rows = list(csv.DictReader((folder / "instances.csv").read_text().splitlines()))
    assert len(rows) == 2 + 3 * 2
    assert all(float(row["regret_low"]) <= float(row["regret"]) for row in rows)
    assert json.loads((folder / "config.json").read_text())["episodes"] == 12
    with pytest.raises(ValueError, match="exists already"):
        run_exact(replace(command, out=str(folder)))
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_class": "speed", "separations": (0.1,)}, "belong to the hidden arm"),
        ({"noises": (0.0,)}, "--noises must be positive"),
        ({"noises": (0.1, 0.1)}, "twice"),
        ({"gap": 5.0}, "horizon of 4"),
        ({"gaps": ()}, "gaps must be positive numbers"),
        ({"seeds": 1}, "seeds must be a whole number of at least 2"),
        ({"gap_seeds": 1}, "gap_seeds must be a whole number of at least 2"),
        ({"episodes": 5}, "episodes must be a whole number of at least 10"),
        ({"delta": 1.0}, "delta must be strictly between 0 and 1"),
        ({"beta": -1.0}, "beta must be theory, ville or a number"),
        ({"chained": True, "random_looks": False}, "--chained"),
    ],
)
def test_settings_are_checked(change, message):
    with pytest.raises(ValueError, match=message):
        cases_of(checked(replace(ExactCommand(), **change)))
