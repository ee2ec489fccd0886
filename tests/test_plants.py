"""Plants that are no SDE of ours: Gymnasium environments, their rewards and their ends."""

import json

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from tests.tiny import SETTINGS

import ctmle
from ctmle.data import Recorded
from ctmle.lab.cli.main import main
from ctmle.lab.experiment import from_settings
from ctmle.planning import init_feedback, plain
from ctmle.plants.gymnasium import GymnasiumPlant
from ctmle.schedules import Equidistant, Looks
from ctmle.training import NotFinite


class Line(gymnasium.Env):
    """A mass on a line, pushed by a force; it is paid for being near 0, and lost beyond 1."""

    metadata = {"render_modes": []}  # noqa: RUF012 - as Gymnasium has it
    dt = 0.1

    def __init__(self, broken_after: int | None = None):
        self.observation_space = Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = Box(-2.0, 2.0, (1,), np.float32)
        self.broken_after, self.steps, self.state = broken_after, 0, np.zeros(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.state = 0, np.array([self.np_random.uniform(-0.1, 0.1), 0.0])
        return self.state.copy(), {}

    def step(self, action):
        x, v = self.state
        self.state, self.steps = np.array([x + self.dt * v, v + self.dt * float(action[0])]), self.steps + 1
        if self.broken_after is not None and self.steps > self.broken_after:
            self.state = np.array([np.nan, 0.0])
        return self.state.copy(), 1.0 - float(action[0]) ** 2, bool(abs(self.state[0]) > 1.0), False, {}


gymnasium.register("ctmle-tests/Line-v0", f"{__name__}:Line", max_episode_steps=40)
LINE = "ctmle-tests/Line-v0"


class Push(ctmle.plants.Continuous):
    """Always the same force."""

    force: float = 1.5

    def __call__(self, t, y):
        return jnp.full((*jnp.shape(y)[:-1], 1), self.force)


def test_an_episode_is_what_the_environment_did():
    plant = GymnasiumPlant(LINE)
    spec = plant.spec
    assert (spec.horizon, spec.hold, spec.control_low, spec.observation.size) == (4.0, 0.1, (-2.0,), 2)
    looks = Equidistant(0.3, random_looks=False).looks(jax.random.key(0), spec.horizon)
    seen = plant.run(Push(), looks, jax.random.key(1))
    # x = x0 + .1^2 * 1.5 * k (k - 1) / 2 leaves 1 after 12 or 13 steps.
    last = round(float(seen.times[-1]) / 0.1)
    assert seen.ended is True
    assert last in (12, 13)
    np.testing.assert_allclose(seen.times[:-1], np.arange(0, last, 3) * 0.1, atol=1e-6)
    start = float(seen.states[0, 0])
    steps = np.round(np.asarray(seen.times) / 0.1)
    np.testing.assert_allclose(seen.states[:, 0], start + 0.015 * steps * (steps - 1) / 2, atol=1e-5)
    np.testing.assert_allclose(np.asarray(seen.rewards), (1 - 1.5**2) * np.diff(steps), rtol=1e-5)
    assert isinstance(seen.drive, Recorded)
    assert seen.drive.times.shape == (last,)
    again = plant.run(Push(), looks, jax.random.key(1))
    np.testing.assert_array_equal(again.states, seen.states)


def test_tests_end_each_by_itself_and_repeat():
    plant = GymnasiumPlant(LINE)
    looks = Equidistant(0.1, random_looks=False).looks(jax.random.key(0), 4.0)
    keys = jax.random.split(jax.random.key(0), 5)
    tests = plant.run_many(Push(), looks, keys)
    assert np.all(tests.ended)
    paid = np.asarray(tests.rewards).sum(axis=1)
    alone = [float(np.sum(np.asarray(plant.run(Push(), looks, key).rewards))) for key in keys]
    np.testing.assert_allclose(paid, alone, rtol=1e-5)
    own = GymnasiumPlant.of(gymnasium.make(LINE)).run_many(Push(), looks, keys)
    np.testing.assert_array_equal(own.states, tests.states)
    still = plant.run_many(Push(0.0), looks, keys)
    assert not np.any(still.ended)
    np.testing.assert_allclose(np.asarray(still.rewards).sum(axis=1), 40.0)


class Odd(Line):
    """Has actions that are no numbers."""

    def __init__(self):
        super().__init__()
        self.action_space = Discrete(2)


class Timeless(Line):
    """Does not say how long a step is."""

    dt = None


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: GymnasiumPlant.of(Odd()), "actions must be a bounded Box of one dimension, not Discrete"),
        (lambda: GymnasiumPlant.of(Line()), "has no limit of steps: give --horizon"),
        (lambda: GymnasiumPlant.of(Timeless(), horizon=1.0), "does not say how long a step is: give --dt"),
        (lambda: GymnasiumPlant("Nowhere-v0"), r"gymnasium.make\('Nowhere-v0'\) failed"),
        (lambda: GymnasiumPlant(LINE, angles=(2,)), "observes the coordinates 0 to 1"),
        (lambda: GymnasiumPlant(LINE, dt=-1.0), "dt must be a positive number"),
    ],
)
def test_what_cannot_be_controlled_is_refused(make, problem):
    with pytest.raises(ValueError, match=problem):
        make()


def test_an_environment_that_returns_nan_is_named():
    plant = GymnasiumPlant.of(Line(broken_after=3), horizon=1.0)
    looks = Looks(jnp.asarray([0.0, 1.0]))
    with pytest.raises(NotFinite, match=r"what Line returned is NaN or inf in a trajectory, after 0\.4 s"):
        plant.run(Push(), looks, jax.random.key(0))


def test_a_policy_of_ours_drives_it():
    plant = GymnasiumPlant(LINE)
    policy = plain(plant.spec, init_feedback(plant.spec, jax.random.key(0), (8,)))
    seen = plant.run(policy, Equidistant(0.1, random_looks=False).looks(jax.random.key(0), 4.0), jax.random.key(0))
    expected = np.asarray(policy(seen.times[0], seen.states[0]))
    np.testing.assert_allclose(seen.controls[0], expected, atol=1e-6)


def test_a_run_is_scored_by_what_the_environment_pays(tmp_path, capsys):
    """Through the command line, with learned rewards and ends; the score can be had again from the folder alone."""
    own = {name: value for name, value in SETTINGS["ct-mle basis"].items() if name != "initial_trajectories"}
    options = {"environment": f"gymnasium:{LINE}", **own, "reward_waves": 5, "reward_steps": 5, "episodes": 2}
    file = tmp_path / "line.json"
    file.write_text(json.dumps(options))
    main(["train", "--config", str(file), "--out", str(tmp_path / "run"), "--test-trajectories", "3"])
    assert "the best episode reached a return of" in capsys.readouterr().out
    records = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [record["return"] for record in records] == [record["score"] for record in records]
    assert not any(record["success"] for record in records)
    assert all(np.isfinite(record["imagined_score"]) and record["ends"] >= 0 for record in records)
    main(["evaluate", str(tmp_path / "run"), "--json"])
    assert json.loads(capsys.readouterr().out)["score"] == records[-1]["score"]
    loaded = ctmle.load(tmp_path / "run")
    assert loaded.data.rewards.shape == loaded.data.times.shape
    again = ctmle.train(gymnasium.make(LINE), from_settings(options).agent, episodes=1)
    assert np.isfinite(again.records[0]["return"])


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--reward", "known"], "the reward of this system is not known: choose --reward learned"),
        (["--survival", "given"], "the hazard of this system is not known: choose --survival learned"),
        (["--rule", "mean"], "judged by --rule return"),
        (["--observation", "trig"], "seen as it comes: choose angles"),
        (["--sigma", "1"], "has no setting 'sigma'"),
        (["--agent", "sac-tacos"], "sac-tacos needs a system whose reward is known: choose --agent ct-mle"),
    ],
)
def test_options_that_do_not_fit_are_refused(words, problem, capsys, tmp_path):
    with pytest.raises(SystemExit):
        main(["train", f"gymnasium:{LINE}", "--out", str(tmp_path / "run"), *words])
    assert problem in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
