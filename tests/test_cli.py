"""The front door as a user meets it: a real process, real files, real mistakes."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ctmle.envs import CartPole, Pendulum
from ctmle.lab.cli.main import main
from ctmle.lab.cli.train import experiment_from
from ctmle.lab.experiment import start
from ctmle.schedules import Grid

TINY = shlex.split(
    "--horizon 4 --gap 0.125 --step 0.05 --episodes 2 --initial-trajectories 2 --waves 10 --evidence-steps 5"
    " --posterior-samples 4 --policy-hidden 16 16 --policy-updates 6 --policy-rounds 2 --particles 8 --critic-steps 2"
    " --critic-batch 16 --chunk 4 --test-trajectories 3"
)


def ctmle(*arguments: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ctmle", *arguments],
        cwd=folder,
        env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_train_then_evaluate(tmp_path, monkeypatch, capsys):
    result = ctmle("train", "pendulum", *TINY, "--threads", "1", "--out", "run", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "episode 2/2: policy" in result.stdout
    assert "ctmle evaluate run" in result.stdout
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {
        "config.json", "metrics.jsonl", "learning_curve.png", "policy.safetensors", "critic.safetensors",
        "model.safetensors", "data.safetensors", "checkpoints", "lock",
    }  # fmt: skip
    records = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    again = ctmle("evaluate", "run", "--json", folder=tmp_path)
    assert json.loads(again.stdout)["score"] == records[-1]["score"]
    monkeypatch.chdir(tmp_path)
    main(["evaluate", "run", "--trajectories", "7", "--which", "best"])
    assert "over 7 trajectories" in capsys.readouterr().out
    with pytest.raises(SystemExit) as refused:
        main(["train", "pendulum", *TINY, "--out", "run"])
    assert refused.value.code == 2
    assert "ctmle resume run" in capsys.readouterr().err
    main(["resume", "run"])
    assert "nothing to resume" in capsys.readouterr().out


def test_oracle_prints_a_score(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    main(["oracle", "linear-quadratic", "--episodes", "1", "--policy-updates", "20", "--json"])
    assert json.loads(capsys.readouterr().out)["episode"] == 1


def test_envs_lists_every_environment(capsys):
    main(["envs"])
    said = capsys.readouterr().out
    for name in ("pendulum", "cartpole", "cartpole-swingup", "acrobot"):
        assert f"{name}:" in said
    assert "control  1: -2 to 2" in said
    assert "horizon 10.0" in said


HELPFUL = ("resume", "evaluate", "compare", "oracle", "envs", "sweep", "reproduce", "exact", "theory", "theory plan")
MISTYPED = ("trian", "train pendulm", "train pendulum --agent dreamer", "train --agent=dreamer")

# Each command line in a process of its own would mostly import the same modules again.
COMMANDS_IN_ONE_PROCESS = """
import contextlib, io, json, sys
from ctmle.lab.cli.main import main
def answer(line):
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(line.split())
        except SystemExit as stop:
            code = stop.code or 0
    return [code, out.getvalue(), err.getvalue()]
print(json.dumps({line: answer(line) for line in sys.argv[1:]}))
"""


def answers_without_jax(lines: list[str], folder: Path) -> dict[str, list]:
    """Exit code, output and errors of each command line, in a process that ends if JAX is imported."""
    (folder / "jax.py").write_text("import os\nos.write(2, b'JAX was imported')\nos._exit(1)\n")
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    command, environment = [sys.executable, "-c", COMMANDS_IN_ONE_PROCESS, *lines], {**os.environ, "PYTHONPATH": path}
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_help_teaches_and_loads_no_jax(tmp_path):
    lines = ["--help", *(f"{command} --help" for command in HELPFUL)]
    for line, (code, said, _) in answers_without_jax(lines, tmp_path).items():
        assert code == 0, line
        assert "usage: ctmle" in said, line


def test_mistyped_names_are_answered_without_jax(tmp_path):
    for line, (code, _, said) in answers_without_jax(list(MISTYPED), tmp_path).items():
        assert code == 2, line
        assert re.search(r"no (command|environment|agent) is called", said), line


def test_the_help_of_train_has_examples_groups_and_the_papers_symbols(tmp_path, capsys):
    said = ctmle("train", "cartpole", "--help", folder=tmp_path).stdout
    assert said.count("    ctmle train") == 4
    for group in ("run", "system", "looking", "data", "model", "planning", "evaluation", "files"):
        assert f"─ {group} options ─" in said
    tuned = CartPole.tuned["ct-mle default"]["episodes"]
    assert re.search(rf"--episodes INT .*\(default: {tuned}\)", said)
    assert "--bang-bang" in said
    with pytest.raises(SystemExit):
        main(["train", "cartpole", "--preset", "paper", "--help"])
    said = capsys.readouterr().out
    for symbol in ("N_0", "N_inc", "B_dyn", "N_dyn", "H_dyn", "M_proj", "N_pol", "H_pol", "eta_base", "N_test"):
        assert f"[{symbol}]" in said


def test_the_version_names_the_commit(tmp_path):
    result = ctmle("--version", folder=tmp_path)
    assert re.match(r"ctmle \d+\.\d+\.\d+", result.stdout)


def test_the_environment_is_the_word_that_is_no_options_value():
    """`--out acrobot pendulum` trains the pendulum, with the pendulum's preset."""
    for words in ("--out acrobot pendulum", "pendulum --out acrobot", "--out=acrobot --no-kinematics pendulum"):
        experiment = experiment_from([str(word) for word in words.split()])
        assert experiment.environment == "pendulum"
        assert isinstance(experiment.env, Pendulum)
        assert experiment.files.out == "acrobot"
        assert experiment.training == start("pendulum").training  # acrobot has 15 episodes
    assert experiment_from(["--policy-hidden", "8", "8", "--sigma", "1", "cartpole"][:-1]).environment == "pendulum"
    assert experiment_from(["--out", "x", "acrobot"]).training.episodes == 15


def test_options_of_parts_of_another_model_can_be_given_with_its_name():
    words = "pendulum --model ensemble --dynamics-hidden 8 8 --objective score-matching --projections 3 --eta-base 2"
    found = experiment_from(shlex.split(words)).settings
    asked = {"model": "ensemble", "dynamics_hidden": (8, 8), "objective": "score-matching", "projections": 3}
    assert found.items() >= {**asked, "eta_base": 2.0}.items()


def test_times_of_looks_can_be_given():
    times = ["--times", "0", "0.5", "2", "4"]
    experiment = experiment_from(["linear-quadratic", "--schedule", "grid", *times, "--no-random-looks"])
    assert experiment.schedule == Grid((0.0, 0.5, 2.0, 4.0), random_looks=False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("train pendulm", "did you mean 'pendulum'"),
        ("train pendulum --sigma -1", "--sigma must be a number of at least 0"),
        ("train pendulum --sigma nan", "--sigma"),
        ("train pendulum --horizon 0", "--horizon must be a positive number"),
        ("train pendulum --gap 20", "choose a shorter gap"),
        ("train pendulum --episodes 0", "--episodes must be a whole number of at least 1"),
        ("train pendulum --warm-up 10", "leaves nothing of the 10 s"),
        ("train pendulum --reset-starts 0.9", "together at most 1"),
        ("train pendulum --particles 5", "fewer than one for each"),
        ("train pendulum --model ensemble --dynamics-rate 0", "--dynamics-rate must be a positive number"),
        ("train pendulum --dynamics-rate 1e-3", "--dynamics-rate belongs to --model ensemble: add that"),
        ("train pendulum --bang-bang", "has no setting 'bang_bang'"),
        ("evaluate nowhere", "not a run folder"),
        ("oracle pendulum --episodes 0", "--episodes must be a whole number of at least 1"),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(arguments.split())
    said = capsys.readouterr().err
    assert stop.value.code == 2
    assert message in said
    assert said.startswith("ctmle: ")
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "runs").exists()


def test_a_mistake_in_a_real_process_is_one_line_too(tmp_path):
    """Nothing that is imported or initialised on the way adds a line."""
    result = ctmle("train", "pendulum", "--gap", "20", folder=tmp_path)
    assert result.returncode == 2
    assert re.fullmatch(r"ctmle: .*choose a shorter gap.*\n", result.stderr)
    assert result.stdout == ""
    assert not (tmp_path / "runs").exists()
