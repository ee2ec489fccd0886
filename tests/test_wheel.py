"""The wheel alone, in an empty virtual environment: it trains and evaluates without this repository."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
PACKAGED = ("src", "pyproject.toml", "README.md", "LICENSE")
"""What a wheel is built from. Only a copy is built, so that nothing is written into the tree."""
NOT_NEEDED = {"ray", "pytest", "pyright", "gymnasium", "beartype", "hypothesis"}


def run(*command: str | Path, folder: Path) -> str:
    """Run a command to success, without what conftest sets for tests, and return its output."""
    ours = ("PYTHONPATH", "XLA_FLAGS", "JAX_", "VIRTUAL_ENV", "PYTEST_", "COV_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    environment["XDG_CACHE_HOME"] = str(folder.parent / "cache")
    result = subprocess.run(
        [str(word) for word in command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    source = tmp_path_factory.mktemp("source")
    for name in PACKAGED:
        path = REPOSITORY / name
        if path.is_dir():
            shutil.copytree(path, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, source / name)
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", "dist")
    run(sys.executable, "-m", "pip", "wheel", *options, ".", folder=source)
    (built,) = (source / "dist").glob("ctmle-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """The programs of a virtual environment that has the wheel and its dependencies."""
    folder = tmp_path_factory.mktemp("venv")
    run(sys.executable, "-m", "venv", "env", folder=folder)
    programs = folder / "env" / "bin"
    run(programs / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel, folder=folder)
    return programs


@pytest.mark.slow
def test_the_wheel_brings_what_training_needs_and_nothing_of_the_developers(installed, tmp_path):
    listed = json.loads(run(installed / "python", "-m", "pip", "list", "--format", "json", folder=tmp_path))
    names = {package["name"].lower() for package in listed}
    assert {"ctmle", "jax", "diffrax"} <= names
    assert not names & NOT_NEEDED
    where = run(installed / "python", "-c", "import ctmle; print(ctmle.__file__)", folder=tmp_path)
    assert Path(where.strip()).is_relative_to(installed.parent)


@pytest.mark.slow
def test_the_wheel_trains_and_evaluates(installed, tmp_path):
    options = ("--preset", "quick", "--episodes", "1", "--out", "run")
    run(installed / "ctmle", "train", "pendulum", *options, folder=tmp_path)
    (line,) = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    evaluated = json.loads(run(installed / "ctmle", "evaluate", "run", "--json", folder=tmp_path))
    assert evaluated["score"] == pytest.approx(json.loads(line)["score"])
