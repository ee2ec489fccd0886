"""Mistakes in the file of a sweep and on its command line: one line each, and nothing is written."""

import re
from pathlib import Path

import pytest

from ctmle.lab.cli.main import main

MISTAKES = {
    "[base]\nagent = {}\n": "agent must be a text, not {}",
    "[grid]\nenvironment = [[1]]\n": "environment must be a text, not [1]",
    "[grid]\nsigmaa = [1]": "there is no setting 'sigmaa': did you mean 'sigma'?",
    "[base]\nsigmaa = 1": "there is no setting 'sigmaa': did you mean 'sigma'?",
    "[gird]\nsigma = [1]": "no table is called 'gird': did you mean 'grid'?",
    "sigma = 2.0": "single settings go into [base]",
    "[base.plant]\nsigma = 1": "there is no setting 'plant'",
    "[grid]\nsigma = 2.0": "[grid]: sigma must be a list of values, such as [0, 1, 2], not 2.0",
    "[grid]\nsigma = []": "[grid]: sigma must be a list of values",
    "[grid]\nsigma = [1, -1]": "--sigma must be a number of at least 0, not -1",
    "[base]\nenvironment = 'linear-quadratic'\n[grid]\ngap = [0.1, 20]": "gap 20 is longer than the horizon 4 s",
    "[grid]\nagent = ['ct-mle', 'dreamer']": "no agent is called 'dreamer'",
    "[grid]\nenvironment = ['pendulm']": "did you mean 'pendulum'?",
    "[base]\npreset = 'fast'": "no preset of ct-mle is called 'fast'",
    "[grid]\nagent = ['ct-mle', 'sac-tacos']\nwaves = [5]": "there is no setting 'waves'",
    "[base]\nbang_bang = true": "there is no setting 'bang_bang'",
    "[base]\nout = 'x'": "'out' is not for single runs of a sweep: use --out",
    "[grid]\nthreads = [1, 2]": "'threads' is not for single runs of a sweep: use --threads",
    "[base]\nconfig = 'x.toml'": "there is no setting 'config'",
    "[base]\ndynamics_rate = 1e-3": "--dynamics-rate belongs to --model ensemble: add that, or leave it out",
    "[base]\nmodel = 'ensemble'\ngap_weighted = true": "--gap-weighted belongs to --objective score-matching: add that",
    "[base]\nsigma = 1\n[base.learner]\nsigma = 2": "[base]: 'sigma' is set twice",
    "[grid]\nseed = [1]\n[[runs]]\nseed = 2": "'seed' varies both in [[runs]] number 1 and in a grid",
    "[grid]\nseed = [1]\n[[runs]]\n[runs.grid]\nseed = [2]": "'seed' varies both in [grid] and in [[runs]] number 1",
    "[random]\nsamples = 2\nsigma = [1]\n[grid]\nsigma = [2]": "'sigma' varies both in [random] and in a grid",
    f"[grid]\nseed = {[*range(1100)]}\nsigma = {[*range(1100)]}": "makes 1210000 runs, more than 1000000",
    "runs = 3": "runs must be one or more tables, each with the title [[runs]]",
    "runs = [3]": "[[runs]] number 1 must be a table of settings by name",
    "base = 3": "[base] must be a table of settings by name",
    "[random]\nsigma = [1]": "[random] samples must be a whole number from 1",
    "[random]\nsamples = 2": "[random] needs a setting to draw",
    "[random]\nsamples = 2\nseed = -1\nsigma = [1]": "[random] seed must be a whole number from 0",
    "[random]\nsamples = 2\nsigma = 1": "[random] sigma must be a list of choices or { low",
    "[random]\nsamples = 2\nsigma = []": "[random] sigma must be a list of choices or { low",
    "[random]\nsamples = 2\nsigma = {low = 2, high = 1}": "[random] sigma must have numbers low < high",
    "[random]\nsamples = 2\nsigma = {low = 1, high = inf}": "[random] sigma must have numbers low < high",
    "[random]\nsamples = 2\nsigma = {low = 'a', high = 1}": "[random] sigma must have numbers low < high",
    "[random]\nsamples = 2\nsigma = {low = 0, high = 1, log = true}": "low must be positive",
    "[random]\nsamples = 2\nsigma = {low = 1, high = 2, log = 1}": "log must be true or false",
    "[random]\nsamples = 2\nsigma = {low = 1, high = 2, step = 1}": "[random] sigma must be a list of choices",
    "[grid": "cannot be parsed",
}


@pytest.mark.parametrize("text", MISTAKES, ids=lambda text: text.splitlines()[-1][:40])
def test_a_mistake_in_the_file_is_one_line_and_writes_nothing(text, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("sweep.toml").write_text(text)
    said = refusal("sweep", "sweep.toml", capsys=capsys)
    assert said.startswith("ctmle: sweep.toml: ")
    assert MISTAKES[text] in said
    assert [path.name for path in tmp_path.iterdir()] == ["sweep.toml"]


def refusal(*arguments: str, capsys) -> str:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    said = capsys.readouterr()
    assert caught.value.code == 2
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    return said.err


LINES = {
    "sweep": "File that lists the runs",
    "sweep nowhere.toml": "nowhere.toml: cannot be read",
    "sweep sweep.yaml": "settings are read from .toml and .json files",
    "sweep sweep.toml --workers 0": "--workers must be a whole number of at least 1",
    "sweep sweep.toml --workers 1000000": "choose fewer",
    "sweep sweep.toml --threads 1000000": "choose fewer",
    "sweep sweep.toml --retries -1": "--retries must be a whole number of at least 0",
    "sweep sweep.toml --engine slurm": "engine",
    "sweep sweep.toml --address 10.0.0.1:6379": "--address 10.0.0.1:6379 is for --engine ray",
    "sweep sweep.toml --engine ray --address 127.0.0.1:9": "there is no Ray cluster",
    "sweep sweep.toml --out sweep.toml": "sweep.toml exists already and is not the folder of a sweep",
    "sweep sweep.toml --dry-run --out sweep.toml": "sweep.toml exists already and is not the folder of a sweep",
}


@pytest.mark.parametrize("line", LINES)
def test_a_mistake_on_the_command_line_is_one_line_and_writes_nothing(line, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("sweep.toml").write_text("[grid]\nseed = [0, 1]\n")
    assert LINES[line] in refusal(*line.split(), capsys=capsys)
    assert [path.name for path in tmp_path.iterdir()] == ["sweep.toml"]


def test_a_dry_run_lists_and_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("sweep.toml").write_text("[grid]\nseed = [0, 1]\n")
    main(["sweep", "sweep.toml", "--dry-run", "--workers", "1"])
    said = capsys.readouterr().out
    assert len(re.findall(r"^to do +pendulum-ct-mle-seed[01]-\w+$", said, re.MULTILINE)) == 2
    assert re.search(r"^2 runs: 0 finished, 0 begun, 2 to do, time unknown until a run has ended$", said, re.M)
    assert [path.name for path in tmp_path.iterdir()] == ["sweep.toml"]
