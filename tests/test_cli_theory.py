"""Tests of the commands `ctmle exact` and `ctmle theory`, in one process to load JAX only once."""

import json
import shlex

import pytest

from ctmle.lab.cli.main import main


@pytest.fixture
def ctmle(tmp_path, monkeypatch, capsys):
    """Function that runs a command line in an empty folder and returns exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")

    def run(line):
        code = 0
        try:
            main(shlex.split(line))
        except SystemExit as stop:
            code = stop.code
        seen = capsys.readouterr()
        return code, seen.out, seen.err

    return run


def test_exact_writes_a_folder_with_tables_and_plots(ctmle, tmp_path):
    line = "exact volatility --noises 0.2 --gaps 2 --gap 2 --episodes 20 --seeds 3 --gap-seeds 2 --beta ville"
    code, out, err = ctmle(line)
    assert code == 0, err
    assert "4/4" in out
    assert "the truth stayed in both sets" in out
    folder = tmp_path / "runs" / "exact-volatility-seed0"
    assert {path.name for path in folder.iterdir()} == {
        "config.json", "instances.csv", "worst.csv", "regret.png", "confidence.png", "gap.png",
    }  # fmt: skip
    assert json.loads((folder / "config.json").read_text())["beta"] == "ville"


PLAN = "--variance 0.05 --horizon 10 --epsilon 0.05 --dimension 3 --look-price 0.2"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f"plan {PLAN} --out plan.png", "gap:      0.2222 s (45 gaps in 10 s)"),
        (f"plan {PLAN} --no-random-looks", "the best gap is 0.1581 s"),
        (f"complexity {PLAN}", "minimising gap: 0.223607 s"),
        ("beta", "beta = 68.0239"),
        ("bracketing", "log C = 4.39445"),
        ("hellinger", "H^2 = 0.1175030974  (closed form)"),
        ("eluder hidden-arm --gaps 1 --states 0", "81 models, 4 points"),
        ("bound --variance 0.01 --gap 1 --horizon 4 --dimension 12", "Regret(1000) <~ 200566"),
        ("ou --terms 5 40", "0.0206"),
        ("quadratic --times 0.5 --samples 300 --step 0.01", "Kolmogorov-Smirnov"),
        ("variance hidden-arm --samples 100 --step 0.1", "95% interval"),
        ("variance-bound --reward-lipschitz 0.1 --drift-lipschitz 0.001 --diffusion 0.05 --horizon 10", "0.0252517"),
    ],
)
def test_theory_answers(ctmle, tmp_path, line, said):
    code, out, err = ctmle(f"theory {line}")
    assert code == 0, err
    assert said in out
    for word in ("trade-off: ", "densities: "):
        if word in out:
            path = tmp_path / out.split(word)[1].split()[0]
            assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("exact --gap 9", "horizon of 4 s"),
        ("exact speed --separations 0.1", "belong to the hidden arm"),
        ("exact --seeds 1", "--seeds must be a whole number of at least 2"),
        ("exact --gap-seeds 1", "--gap-seeds must be a whole number of at least 2"),
        ("exact --episodes 5", "--episodes must be a whole number of at least 10"),
        ("exact --delta 1", "--delta must be strictly between 0 and 1"),
        ("exact --beta -1", "--beta must be theory, ville or a number of at least 0"),
        ("exact --gaps 0", "--gaps must be positive numbers"),
        ("exact saturated --noises 0.01", "noise must be at least 0.15"),
        (f"theory plan {PLAN} --variance 2", "--variance must be between 0 and 1"),
        (f"theory plan {PLAN} --out plan.jpg", "must end in .png"),
        ("theory hellinger --variance-p 0", "--variance-p must be a positive number"),
        ("theory beta --delta 2", "--delta must be strictly between 0 and 1"),
        ("theory eluder --gaps 0", "gaps must be positive"),
        ("theory ou --time 0", "--time must be a positive number"),
        ("theory ou --start nan", "--start must be a finite number"),
        ("theory ou --terms 0", "--terms must be a whole number of at least 1"),
        ("theory variance --seed -1", "--seed must be a whole number of at least 0"),
        ("theory quadratic --times 4", "between 0 and pi"),
        ("theory variance --samples 2", "--samples must be at least 4"),
        ("theory variance --run nowhere", "not a run folder"),
        ("theory bound --variance 0.01 --gap 9 --horizon 4 --dimension 12", "--gap must lie between 0"),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(ctmle, tmp_path, line, message):
    code, _, err = ctmle(line)
    assert code == 2
    assert err.startswith("ctmle: ")
    assert message in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "runs").exists()
