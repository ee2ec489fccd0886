"""A resumed run has the same bytes, or says what differs; its log and checkpoints are bound to each other."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from disks import TRAIN  # pyright: ignore[reportMissingImports]
from kills import outcome  # pyright: ignore[reportMissingImports]
from test_faults import exit_code
from test_run import trained
from tiny import run_experiment

from ctmle.lab.machine import check_surroundings, differences, numerics, remove_damaged_programs, versions
from ctmle.lab.run import Run
from ctmle.lab.session import Session
from ctmle.lab.storage import RunFolder
from ctmle.lab.storage.files import digest
from ctmle.lab.storage.log import Mark
from ctmle.lab.storage.run_folder import Checkpoint
from ctmle.lab.storage.tensors import LARGEST_HEADER, read_tensors, write_tensors

STOPPED = run_experiment("sac-tacos", episodes=1, checkpoint_every=1)


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> RunFolder:
    return trained(STOPPED.changed({"out": str(tmp_path_factory.mktemp("sound") / "run")}))[0]


@pytest.fixture
def stopped(sound, tmp_path) -> RunFolder:
    """A run that still has its last test to do."""
    copy = tmp_path / "run"
    for path in sound.path.rglob("*"):
        target = copy / path.relative_to(sound.path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.mkdir(exist_ok=True) if path.is_dir() else target.write_bytes(path.read_bytes())
    folder = RunFolder.open(copy)
    folder.checkpoints[-1].unlink()
    return folder


def rewrite(folder: RunFolder, **machine: object) -> None:
    """Make config.json and its checkpoints say that the run was begun on another machine."""
    content = json.loads(folder.config_file.read_text())
    del content["checksum"]
    content["machine"] |= machine
    folder.config_file.write_text(json.dumps({**content, "checksum": digest(content)}))
    del content["schema"]
    for path in folder.checkpoints:
        arrays, about = read_tensors(path)
        write_tensors(path, arrays, {**about, "run": digest(content)})


def test_a_run_records_what_has_a_say_in_its_numbers(sound):
    machine = sound.read_settings()["machine"]
    assert machine["threads"] == 2
    assert machine["devices"] == ["2 x cpu (cpu)"]
    assert machine["jax_threefry_partitionable"] is True
    assert machine["jax_enable_x64"] is False
    assert "--xla_backend_optimization_level=0" in machine["XLA_FLAGS"]
    assert differences(machine, versions()) == []


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        ({"threads": 1}, "threads was 1, here 2"),
        ({"jax_threefry_partitionable": False}, "jax_threefry_partitionable was False, here True"),
        ({"XLA_FLAGS": "--xla_cpu_enable_fast_math=true"}, "XLA_FLAGS was --xla_cpu_enable_fast_math=true, here"),
        ({"jax_default_matmul_precision": "highest"}, "jax_default_matmul_precision was highest, here None"),
        ({"source": "0"}, "the source code of ctmle has changed"),
        ({"processor": "abacus"}, "processor was abacus, here"),
    ],
)
def test_what_would_change_the_bytes_is_named_and_must_be_accepted(machine, said, stopped, capsys):
    rewrite(stopped, **machine)
    assert exit_code("resume", str(stopped.path)) == 2
    refused = capsys.readouterr().err
    assert said in refused
    assert "pass --accept-different" in refused
    assert len(refused.splitlines()) == 1
    if "source" in machine:
        assert exit_code("resume", str(stopped.path), "--accept-different") == 0
        assert said in capsys.readouterr().out
        assert stopped.finished


def test_other_versions_are_named():
    assert differences(numerics(), {**versions(), "jax": "0.0"}) == [f"jax was 0.0, here {jax.__version__}"]


@pytest.mark.parametrize("value", [None, 3, {"threads": "many"}, {"threads": 10**9}, {"threads": 0}])
def test_a_machine_that_ctmle_did_not_write_is_refused(value, stopped):
    content = {**stopped.read_settings(), "machine": value}
    stopped.config_file.write_text(json.dumps({"schema": 3, **content, "checksum": digest({"schema": 3, **content})}))
    with pytest.raises(ValueError, match="restore it from a copy"):
        Session.resume(stopped.path)


def test_a_resumed_run_gets_the_threads_that_it_had(tmp_path):
    """Begun with one thread, resumed in a process that would take two."""
    begin = [sys.executable, "-m", "ctmle", *TRAIN, "--threads", "1", "--out", "run"]
    subprocess.run(begin, cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
    folder = RunFolder.open(tmp_path / "run")
    folder.checkpoints[-1].unlink()
    before = folder.tensors("policy").read_bytes()
    rewrite(folder)
    content = folder.read_settings()
    assert (content["threads"], content["machine"]["threads"]) == (1, 1)
    again = subprocess.run([sys.executable, "-m", "ctmle", "resume", "run"], cwd=tmp_path, check=False,
                           capture_output=True, text=True)  # fmt: skip
    assert again.returncode == 0, again.stderr
    assert folder.tensors("policy").read_bytes() == before


def test_a_run_with_a_basis_ends_with_the_same_bytes_from_whichever_checkpoint_it_is_resumed(tmp_path):
    """A basis is fitted, starts are prepared and policies are judged between updates; so are checkpoints written."""
    options = {"out": str(tmp_path / "run"), "checkpoint_every": 1, "checkpoints_kept": 100}
    folder, _ = trained(run_experiment("ct-mle basis", **options))
    expected = outcome(folder.path)
    assert expected.keys() >= {f"{part}.safetensors" for part in ("policy", "critic", "model", "data")}
    numbers = range(1, len(folder.checkpoints))
    assert len(numbers) > 8
    for number in numbers:
        copy = tmp_path / f"from{number}"
        shutil.copytree(folder.path, copy)
        for later in RunFolder.open(copy).checkpoints[number:]:
            later.unlink()
        Session.resume(copy).train()
        assert outcome(copy) == expected, number


# Logs


def test_the_log_is_bound_to_the_checkpoints(tmp_path):
    folder = RunFolder.create(run_experiment(out=str(tmp_path / "run")))
    record = {"episode": 1, "score": 0.25, "score_se": 0.1, "success": False, "looks": 3,
              "experience_seconds": 1.0, "experience_looks": 2}  # fmt: skip
    log = folder.write_log([record])
    folder.save_checkpoint({"x": np.zeros(1)}, log.mark, finished=False, keep=2)
    log.append({**record, "episode": 2})
    assert list(folder.read_results()) == [record]
    assert len(folder.read_metrics()) == 2
    with folder.metrics_file.open("ab") as file:
        file.write(b'{"episode": 3, "sco')  # as a kill leaves it
    assert len(folder.read_metrics()) == 2
    again = folder.continue_log(folder.read_checkpoint().log)
    assert again.mark == Mark(1, log.mark.size // 2, again.mark.digest)
    assert folder.metrics_file.read_text() == json.dumps(record) + "\n"
    folder.metrics_file.write_text(json.dumps({**record, "score": 0.75}) + "\n")
    with pytest.raises(ValueError, match="was changed since its run wrote it"):
        list(folder.read_results())
    with pytest.raises(ValueError, match="was changed since its run wrote it"):
        folder.continue_log(folder.read_checkpoint().log)
    with pytest.raises(ValueError, match="Out of range float"):
        log.append({**record, "score": float("nan")})


def test_an_edited_score_is_noticed_after_checkpoints_were_dropped(sound, stopped, capsys):
    assert exit_code("resume", str(stopped.path)) == 0
    stopped.drop_checkpoints()
    assert stopped.finished
    assert exit_code("compare", str(stopped.path), "--out", str(stopped.path / "x.png")) == 0
    text = stopped.metrics_file.read_text()
    score = json.loads(text)["score"]
    stopped.metrics_file.write_text(text.replace(f'"score": {score}', f'"score": {str(score)[:-1]}7'))
    capsys.readouterr()
    assert exit_code("compare", str(stopped.path)) == 2
    assert "was changed since its run wrote it" in capsys.readouterr().err


def test_checkpoint_numbers_have_no_end(stopped):
    stopped.checkpoints[-1].rename(stopped.path / "checkpoints" / "999999.safetensors")
    checkpoint = stopped.read_checkpoint()
    stopped.save_checkpoint(checkpoint.arrays, checkpoint.log, finished=False, keep=2)
    assert [path.name for path in stopped.checkpoints] == ["999999.safetensors", "1000000.safetensors"]
    assert stopped.read_checkpoint().path.name == "1000000.safetensors"
    (stopped.path / "checkpoints" / "²³.safetensors").write_bytes(b"")
    assert len(stopped.checkpoints) == 2


# Sizes and counters


def test_what_a_checkpoint_declares_is_compared_before_memory_is_taken(stopped):
    """A file of a terabyte, most of it a hole, with a header whose checksum is right."""
    good, job = stopped.read_checkpoint(), Run(stopped.read_experiment())
    name = "".join(key for key in good.arrays if key.endswith("rows.reward"))
    about = {"run": stopped.identity, "log": good.log.to_json(), "finished": False}
    write_tensors(good.path, {**good.arrays, name: np.zeros(1, np.float32)}, about)
    raw = good.path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + size])
    end = max(entry["data_offsets"][1] for key, entry in header.items() if key != "__metadata__")
    header["giant"] = {"dtype": "F32", "shape": [2**38], "data_offsets": [end, end + 2**40]}
    new = json.dumps(header).encode()
    good.path.write_bytes(len(new).to_bytes(8, "little") + new + raw[8 + size :])
    with good.path.open("r+b") as file:
        file.truncate(8 + len(new) + end + 2**40)
    with pytest.raises(ValueError, match=r"does not fit this run: it has an unexpected 'giant'"):
        stopped.read_checkpoint(job.fits)
    good.path.write_bytes((LARGEST_HEADER + 1).to_bytes(8, "little") + b" " * (LARGEST_HEADER + 1))
    with pytest.raises(ValueError, match="its header has no end"):
        stopped.read_checkpoint(job.fits)


@pytest.mark.parametrize(
    ("agent", "counter", "value"),
    [
        ("ct-mle", ".data.count", 10**6),
        ("ct-mle", ".data.lengths", 10**6),
        ("ct-mle", ".driven", -1),
        ("ct-mle", ".stage", 17),
        ("ct-mle", ".step", 10**6),
        ("ct-mle", ".retries", 99),
        ("ct-mle", ".known", 10**6),
        ("ct-mle basis", ".stage", 17),
        ("sac-tacos", ".history.rows.length", 10**6),
        ("sac-tacos", ".history.numbers", 5),
        ("sac-tacos", ".pending", 10**6),
        ("sac-tacos", ".trajectories", -4),
        ("sac-tacos", ".retries", -1),
    ],
)
def test_counters_must_fit_their_arrays(agent, counter, value, tmp_path):
    job = Run(run_experiment(agent))
    arrays = {name: np.array(leaf) for name, leaf in fresh(job).items()}
    assert job.restore(Checkpoint(tmp_path / "x", dict(arrays), Mark(), False)) is not None
    arrays[counter] = np.full_like(arrays[counter], value)
    with pytest.raises(ValueError, match="does not fit this run"):
        job.restore(Checkpoint(tmp_path / "x", arrays, Mark(), False))


def fresh(job: Run) -> dict[str, np.ndarray]:
    from ctmle.lab.storage.trees import arrays_of

    return arrays_of(job.init())


def test_a_dataset_that_is_larger_than_the_run_can_gather_is_refused(tmp_path):
    job = Run(run_experiment())
    layout = {name: (array.dtype, array.shape) for name, array in fresh(job).items()}
    job.fits(tmp_path / "x", layout)
    many = {name: (kind, (2**30, *shape[1:])) if name in (".data.times", ".data.states") else (kind, shape)
            for name, (kind, shape) in layout.items()}  # fmt: skip
    with pytest.raises(ValueError, match="larger than the run can gather"):
        job.fits(tmp_path / "x", many)


# Surroundings


def test_programs_without_an_end_are_removed_from_the_cache(tmp_path):
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    try:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
        jax.jit(lambda x: jnp.sin(x) * 3.25)(1.0)
    finally:
        jax.config.update("jax_compilation_cache_dir", None)
    programs = list(tmp_path.glob("*-cache"))
    for program in programs[1:]:
        program.write_bytes(program.read_bytes()[:-3])
    (tmp_path / "empty-cache").write_bytes(b"")
    remove_damaged_programs(tmp_path)
    assert list(tmp_path.glob("*-cache")) == programs[:1]


def test_surroundings_are_checked_before_anything_is_begun(monkeypatch):
    check_surroundings()
    monkeypatch.setenv("JAX_DEBUG_NANS", "True")
    with pytest.raises(RuntimeError, match="JAX_DEBUG_NANS ends a run"):
        check_surroundings()
    monkeypatch.delenv("JAX_DEBUG_NANS")
    monkeypatch.setattr("resource.getrlimit", lambda limit: (10**9, 10**9))
    with pytest.raises(RuntimeError, match=r"may use 1.0 GB of address space \(`ulimit -v`\)"):
        check_surroundings()


def test_a_platform_that_is_not_there_is_named():
    told = subprocess.run([sys.executable, "-m", "ctmle", *TRAIN], env={**os.environ, "JAX_PLATFORMS": "abacus"},
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert told.returncode == 1
    assert "JAX_PLATFORMS is 'abacus': unset it" in told.stderr
    assert len(told.stderr.splitlines()) == 1


def test_every_ray_that_is_allowed_has_tokens():
    """Ray has tokens since 2.52."""
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    floors = [name for names in extras.values() for name in names if name.startswith("ray")]
    assert len(floors) == 2
    for floor in floors:
        assert tuple(map(int, floor.removeprefix("ray>=").split("."))) >= (2, 52)
