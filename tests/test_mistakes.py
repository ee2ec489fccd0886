"""Mistakes at the door, by the hundred: each is one line, exit code 2, and nothing is written.

`make faults` makes every mistake with every option; `make test` makes each option's mistakes in turn.
"""

import json
from collections.abc import Collection
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, get_origin

import pytest

from ctmle.lab.cli.main import main
from ctmle.lab.experiment import start
from ctmle.options import flat, variant_options, walk
from ctmle.settings import alternatives, problem, spelled

TEXTS = {"out", "agent"}
SHARE = 3
"""One in so many mistakes with each option is part of `make test`, of another kind for the next option."""


NETWORKS = ("--model", "ensemble")
"""Words that give ct-mle its other model, with options of its own."""


def options_of(agent: str, model: str | None = None) -> dict[str, Any]:
    """Every option with its type, those of parts that could be chosen included."""
    experiment = start("pendulum", agent).changed({} if model is None else {"model": model})
    options = {**{option.name: option for option in walk(experiment)}, **variant_options(experiment)}
    return {name: option.hint for name, option in options.items() if name != "environment"}


def bad_arguments(agent: str, known: Collection[str] = (), words: tuple[str, ...] = ()) -> list[list[str]]:
    """For every option, values that it cannot have. The words `NETWORKS` come after it."""
    lines = []
    for name, hint in options_of(agent, "ensemble" if words else None).items():
        if name in known:
            continue
        flag, kinds = spelled(name), {kind for outer in alternatives(hint) for kind in alternatives(outer)}
        values: list[str] = []
        if any(get_origin(kind) is Literal for kind in kinds) or name == "preset":
            values = ["nonsense", "", "None"]
        elif int in kinds:
            values = ["-1", "1.5", "many", "99999999999999999999999"] + (["0"] if problem(hint, 0) else [])
        elif float in kinds:
            values = ["nan", "inf", "much"] + [
                text for text in ("0", "-1", "-0.1", "1.5") if problem(hint, float(text))
            ]
        elif bool in kinds:
            lines += [[f"{flag}=perhaps"], [flag, "yes"]]
        elif any(get_origin(kind) is tuple for kind in kinds):
            values = ["wide", "nan"] if name == "times" else ["0", "-3", "wide", "2.5", "999999999"]
        lines += [[flag, value] for value in values]
        if not kinds & {bool} and not any(get_origin(kind) is tuple for kind in kinds):
            lines.append([flag])  # and then nothing
    return [["train", "pendulum", "--agent", agent, *line, *words] for line in lines]


WHOLE_LINES = """
|trian pendulum|pendulum|train pendulm|train pendulum cartpole|train --environment pendulum|train pendulum extra words
train pendulum --ensembel 5|train pendulum --sigma 1 --sigma x|train pendulum -x|train pendulum --no-sigma|--nonsense
train pendulum --preset fast|train pendulum --agent dreamer|train pendulum --bang-bang|train cartpole --start uniform
train acrobot --bang-bang|train pendulum --underactuated|train linear-quadratic --underactuated
train pendulum --gap 11|train pendulum --gap 1e-9|train pendulum --step 1e-9
train pendulum --horizon 2|train pendulum --horizon 1e9|train pendulum --warm-up 10|train pendulum --test-gap 9
train pendulum --policy-step 2|train pendulum --policy-step 1e-9
train pendulum --particles 9|train pendulum --longest-step 1e-9
train pendulum --reset-starts 0.6 --box-starts 0.6|train pendulum --trajectory-seconds 0.1
train pendulum --trajectory-seconds 1e9|train pendulum --model ensemble --dynamics-hidden
train pendulum --dynamics-rate 1e-3|train pendulum --model ensemble --waves 9|train pendulum --model network
train pendulum --config|train pendulum --config missing.toml|train pendulum --config .
train pendulum --config settings.yaml
resume|resume nowhere|resume a b|resume --run nowhere|evaluate|evaluate nowhere|evaluate nowhere --trajectories 0
evaluate nowhere --which worst|evaluate nowhere --trajectories many|oracle|oracle pendulm|oracle pendulum --sigma -1
oracle pendulum --episodes 0|oracle pendulum --policy-updates 0|oracle pendulum --trajectories 0
oracle pendulum --unit 0
oracle pendulum --seed -1|oracle pendulum --seed 1.5|envs pendulum|envs --all|evaluate /dev/null|resume /
train pendulum --agent sac-tacos --min-hold 40|train pendulum --agent sac-tacos --tick 11
train pendulum --agent sac-tacos --ensemble 5|train pendulum --preset convergence
train pendulum --episodes 5 --test-every 6
train pendulum --agent enode --dynamics-length 1|train pendulum --agent enode --optimism
train pendulum --agent enode --noise-floor 0.5|train pendulum --agent enode --preset convergence
train pendulum --agent enode --control hold
train pendulum --test-seconds 3|train pendulum --agent sac-tacos --test-seconds 30|evaluate nowhere --rule never
evaluate nowhere --test-seconds 0|evaluate nowhere --success much
compare|compare nowhere|compare nowhere --out x.pdf|compare --runs nowhere
train pendulum --out /dev/null|train pendulum --out /proc/nowhere/run
"""
LINES: list[list[str]] = [list(part.split()) for line in WHOLE_LINES.strip().splitlines() for part in line.split("|")]


def bad_files() -> dict[str, bytes]:
    """Files of settings that are none, by name."""
    return {
        "syntax.toml": b"sigma = ",
        "twice.toml": b"sigma = 1\nsigma = 2\n",
        "twice2.toml": b"ensemble = 4\n[learner]\nensemble = 5\n",
        "unclosed.toml": b"[learner\n",
        "bytes.toml": bytes(range(256)),
        "nul.toml": b"out = 'a\0b'",
        "list.json": b"[1, 2]",
        "number.json": b"3",
        "null.json": b"null",
        "empty.json": b"",
        "cut.json": b'{"sigma": 1',
        "deep.json": b"[" * 100_000,
        "huge.json": b" " * 1_000_001,
        "unknown.toml": b"colour = 'red'\n",
        "near.toml": b"sigmaa = 1\n",
        "table.toml": b"[plant]\nsigma = 1\n",
        "inner.toml": b"[learner]\nsigma = { a = 1 }\n",
        "environment.toml": b"environment = 'pendulm'\n",
        "agent.toml": b"agent = 'dreamer'\n",
        "agent2.toml": b"agent = 3\n",
        "preset.json": b'{"preset": ["paper"]}',
        "combination.toml": b"gap = 20\n",
        "infinity.json": b'{"sigma": Infinity}',
        "date.toml": b"sigma = 2020-01-01\n",
        "learner.toml": b"learner = 3\n",
        "settings.yaml": b"sigma: 1\n",
    }


def wrong_types() -> dict[str, bytes]:
    """Files that give every option values of types that it cannot have, by name."""
    files: dict[str, bytes] = {}
    default = flat(start("pendulum"))
    for name, hint in (options_of("ct-mle") | options_of("ct-mle", "ensemble")).items():
        if name in TEXTS:
            continue
        chosen = {} if name in default else {"model": "ensemble"}
        wrong = {"object": {"a": 1}, "list": [[]], "text": "three"}
        if bool not in alternatives(hint):
            wrong["truth"] = True
        for kind, value in wrong.items():
            files[f"{name}-{kind}.json"] = json.dumps({**chosen, name: value}).encode()
    return files


def refusal(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What the user is told. Asserts that it is one line on stderr with exit code 2."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    output = capsys.readouterr()
    assert caught.value.code == 2, (arguments, caught.value.code, output)
    assert output.out == "", arguments
    assert output.err.startswith("ctmle: "), (arguments, output.err)
    assert len(output.err.splitlines()) == 1, (arguments, output.err)
    assert "Traceback" not in output.err
    return output.err


def refuse_lines(lines: list[list[str]], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for line in lines:
        refusal(line, capsys)
        assert list(folder.iterdir()) == [], line
    print(f"{len(lines)} bad command lines: each one line, exit code 2, nothing written")


def refuse_files(files: dict[str, bytes], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, content in files.items():
        path = folder / name
        path.write_bytes(content)
        said = refusal(["train", "--config", name], capsys)
        assert name in said
        path.unlink()
        assert list(folder.iterdir()) == [], name
    print(f"{len(files)} bad files of settings: each one line, exit code 2, nothing written")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lines_of_every_option() -> list[list[str]]:
    default, networks = flat(start("pendulum")), options_of("ct-mle", "ensemble")
    others = [line for agent in ("enode", "sac-tacos") for line in bad_arguments(agent, default | networks)]
    usual = bad_arguments("ct-mle", networks.keys() - default.keys())
    return usual + bad_arguments("ct-mle", default, NETWORKS) + others


def some_lines_of_every_option() -> list[list[str]]:
    groups = groupby(lines_of_every_option(), key=lambda line: line[4].partition("=")[0])
    by_option = [list(lines) for _, lines in groups]
    return [line for i, lines in enumerate(by_option) for line in lines[i % min(SHARE, len(lines)) :: SHARE]]


def test_bad_command_lines(folder: Path, capsys: pytest.CaptureFixture[str]):
    lines = some_lines_of_every_option() + LINES
    assert len(lines) >= 250
    refuse_lines(lines, folder, capsys)


def test_bad_files_of_settings(folder: Path, capsys: pytest.CaptureFixture[str]):
    odd, wrong = bad_files(), wrong_types()
    files = odd | dict(list(wrong.items())[::SHARE])
    assert len(files) >= 100
    refuse_files(files, folder, capsys)


@pytest.mark.slow
def test_every_bad_command_line(folder: Path, capsys: pytest.CaptureFixture[str]):
    refuse_lines(lines_of_every_option() + LINES, folder, capsys)


@pytest.mark.slow
def test_every_bad_file_of_settings(folder: Path, capsys: pytest.CaptureFixture[str]):
    refuse_files(bad_files() | wrong_types(), folder, capsys)


def test_a_near_match_is_suggested(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "near.toml").write_text("[learner]\nmodel = 'ensemble'\nensembel = 3\n")
    assert "did you mean 'ensemble'" in refusal(["train", "--config", "near.toml"], capsys)
    assert "did you mean --ensemble?" in refusal(["train", "pendulum", "--ensembel", "3"], capsys)
    assert "did you mean 'train'" in refusal(["trian"], capsys)
    assert "did you mean 'pendulum'" in refusal(["train", "pendulm"], capsys)
