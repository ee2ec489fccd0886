"""Parts from outside the package: the examples of docs/extending.md, registered and used as a stranger would."""

import re
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from tiny import SETTINGS, TACOS

import ctmle
from ctmle import envs, registry
from ctmle.lab.cli.main import main
from ctmle.lab.cli.train import experiment_from
from ctmle.lab.experiment import from_json, start, to_json
from ctmle.lab.systems import spec_of
from ctmle.schedules import Looks

PAGE = Path(__file__).parent.parent / "docs" / "extending.md"
TINY = [word for name, value in SETTINGS["ct-mle basis"].items() for word in (f"--{name.replace('_', '-')}", *(
    map(str, value) if isinstance(value, tuple) else [str(value)]))]  # fmt: skip


@pytest.fixture(scope="module")
def examples(tmp_path_factory) -> Path:
    """The Python examples of the page as modules, each named after its first class or function."""
    folder = tmp_path_factory.mktemp("outside")
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S):
        found = re.search(r"^(?:class|def) (\w+)", code, re.M)
        assert found is not None
        (folder / f"{found[1].lower()}.py").write_text(code)
    sys.path.insert(0, str(folder))
    return folder


@pytest.fixture
def registered(examples, monkeypatch):
    """Register a name for the length of a test."""

    def register(names: registry.Registry, name: str, path: str) -> None:
        monkeypatch.setattr(names, "registered", dict(names.registered))
        names.register(name, path)

    return register


def test_an_environment_in_a_file_trains_resumes_and_is_evaluated(examples, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tank = f"{examples / 'tank.py'}:Tank"
    main(["train", tank, "--leak", "0.4", "--episodes", "1", "--step", "0.05", "--test-trajectories", "2", *TINY,
          "--out", "run"])  # fmt: skip
    capsys.readouterr()
    for words in (["evaluate", "run"], ["resume", "run"]):
        with pytest.raises(SystemExit) as stop:
            main(words)
        assert stop.value.code == 2
        assert "name it again with --environment, or pass --trust" in capsys.readouterr().err
    main(["evaluate", "run", "--environment", tank, "--json"])
    score = capsys.readouterr().out
    (tmp_path / "run").rename(tmp_path / "moved")
    main(["evaluate", "moved", "--trust", "--json"])
    assert capsys.readouterr().out.replace("moved", "run") == score
    main(["resume", "moved", "--trust"])
    assert "nothing to resume" in capsys.readouterr().out
    loaded = ctmle.load("moved")  # without the environment's code
    assert loaded.experiment is None
    assert len(loaded.records) == 1
    assert loaded.policy(0.0, jax.numpy.asarray([0.5])).shape == (1,)
    with pytest.raises(ValueError, match="was not loaded with this run"):
        loaded.policy.feedback.spec.state_reset(jax.random.key(0))
    trusted = ctmle.load("moved", trust=True)
    assert trusted.experiment is not None
    assert trusted.experiment.settings["leak"] == 0.4


def test_an_environment_holds_its_control_and_has_a_goal(examples):
    experiment = start(f"{examples / 'sampledtank.py'}:SampledTank").changed({"sensor_noise": 0.1, "rule": "goal"})
    spec = experiment.env.spec
    assert (spec.hold, spec.sensor) == (0.5, envs.NoisySensor(0.1))
    assert spec.reached(jax.numpy.asarray([[1.1], [0.7]])).tolist() == [True, False]
    envs.check_env(experiment.env)


def test_a_changed_source_is_said(examples, tmp_path, monkeypatch, caplog):
    copy = tmp_path / "tank.py"
    copy.write_text((examples / "tank.py").read_text())
    content = to_json(start(f"{copy}:Tank"))
    assert spec_of(from_json(content, trust=True).env).horizon == 6.0
    assert caplog.text == ""
    copy.write_text(copy.read_text() + "# changed\n")
    from_json(content, trust=True)
    assert "has changed since this run was made" in caplog.text


def test_an_environment_with_a_mistake_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.py").write_text(
        (PAGE.parent.parent / "examples" / "dosing.py")
        .read_text()
        .replace("return jnp.zeros(2)", "return jnp.zeros(3)")
    )
    with pytest.raises(SystemExit):
        main(["train", "wrong.py:Dosing"])
    assert "Dosing.reset: must give shape (2,), not (3,)" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir() if path.is_dir() and path.name == "runs"] == []


def test_a_schedule_from_outside(registered):
    registered(registry.SCHEDULES, "front-loaded", "frontloaded:FrontLoaded")
    experiment = experiment_from(["pendulum", "--schedule", "front-loaded", "--longest", "0.25"])
    looks = experiment.schedule.looks(jax.random.key(0), 1.0)
    assert isinstance(looks, Looks)
    np.testing.assert_allclose(looks.times, [0, 0.05, 0.15, 0.35, 0.6, 0.85, 1.0], rtol=1e-5)
    assert from_json(to_json(experiment)) == experiment


def test_an_objective_from_outside(registered):
    registered(registry.OBJECTIVES, "bounded", "boundedlikelihood:BoundedLikelihood")
    experiment = experiment_from(["pendulum", "--model", "ensemble", "--objective", "bounded", "--floor", "20"])
    assert experiment.settings["floor"] == 20.0
    assert from_json(to_json(experiment)) == experiment
    with pytest.raises(ValueError, match="--floor belongs to --objective bounded"):
        start().changed({"model": "ensemble", "floor": 20.0})


def test_an_agent_from_outside(registered):
    registered(registry.AGENTS, "keen", "keenagent:KeenAgent")
    quick = start("pendulum", "keen", "quick")
    assert (quick.settings["eta_base"], quick.settings["ensemble"], quick.algorithm) == (2.0, 5, "keen")
    start.cache_clear()


def test_an_environment_of_python_is_saved_and_loaded(tmp_path, examples):
    from tank import Tank  # pyright: ignore[reportMissingImports]

    plant = ctmle.plants.SimulatedSDE(Tank(leak=0.3), 0.05)
    result = ctmle.train(plant, TACOS, episodes=1)
    result.save(tmp_path / "run")
    again = ctmle.load(tmp_path / "run", "tank:Tank")
    assert again.experiment is not None
    assert isinstance(again.experiment.env, envs.Env)
    assert again.records == result.records
