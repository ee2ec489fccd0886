"""Kill `ctmle reproduce` at every operation on files: findings are the old ones or the new ones, and always whole.

python tests/faults/table.py --only findings_kills        (`make faults` runs all classes)
"""

import os
import signal
import tempfile
from contextlib import chdir, redirect_stderr, redirect_stdout
from itertools import count
from pathlib import Path

from strikes import striking  # pyright: ignore[reportMissingImports]
from tally import Tally  # pyright: ignore[reportMissingImports]

from ctmle.lab.cli.main import main
from ctmle.lab.cli.parse import parse
from ctmle.lab.cli.sweep import ReproduceCommand
from ctmle.lab.experiment import from_settings
from ctmle.lab.paper import width  # noqa: F401 - imported once, before processes are forked
from ctmle.lab.paper.findings import paper_experiment
from ctmle.lab.report import statistics
from ctmle.lab.storage.files import PART, read_json
from ctmle.lab.storage.run_folder import RunFolder
from ctmle.lab.storage.tensors import Arrays
from ctmle.lab.sweeps.plan import Plan

COMMAND = ["width", "--size", "smoke", "--out", "out"]
FILES = {"figure.png", "figure.svg", "results.csv", "verdict.md", "made_by.json"}


def finish_runs(score: float) -> None:
    """Write the folders of all runs of the experiment, finished with a score in every episode."""
    command = parse(ReproduceCommand, COMMAND, "ctmle reproduce")
    for planned in Plan.of(paper_experiment("width").runs(command)).runs:
        experiment = from_settings({**planned.settings, "out": f"out/runs/{planned.name}"})
        folder = RunFolder(Path(experiment.files.out or ""))
        folder = RunFolder.open(folder.path) if folder.config_file.exists() else RunFolder.create(experiment)
        log = folder.write_log(
            [
                {
                    "episode": episode,
                    "score": score,
                    "score_se": 0.1,
                    "success": False,
                    "looks": 10 * episode,
                    "experience_seconds": 1.0 * episode,
                    "experience_looks": 5 * episode,
                }
                for episode in range(1, experiment.training.episodes + 1)
            ]
        )
        arrays: Arrays = {}
        folder.save_checkpoint(arrays, log.mark, finished=True, keep=1)


def killed_at(number: int) -> bool:
    """Reproduce in a process that is killed at its n-th operation on files; False if it had fewer and ended."""
    child = os.fork()
    if child == 0:
        operations = count(1)

        def strike(operation: str, path: str) -> None:
            if next(operations) == number:
                os.kill(os.getpid(), signal.SIGKILL)

        code = 1
        try:
            quiet = open(os.devnull, "w")  # noqa: SIM115 - this process ends with it
            with redirect_stdout(quiet), redirect_stderr(quiet), striking(Path("out"), strike):
                main(["reproduce", *COMMAND])
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code not in (0, -signal.SIGKILL):
        raise RuntimeError(f"reproduce ended with code {code}")
    return code != 0


def page() -> str | None:
    """Return the findings' page; None if the findings are not whole."""
    place = Path("out/findings")
    if not place.is_dir() or {path.name for path in place.iterdir()} != FILES:
        return None
    read_json(place / "made_by.json")
    return (place / "verdict.md").read_text().split("## Made by")[0]


def attack(every: int = 1) -> Tally:
    """Kill at every operation, or at one in so many, with other results each time."""
    tally, statistics.RESAMPLES = Tally(), 50
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        Path("out/runs").mkdir(parents=True)
        finish_runs(0.1)
        Path("out/sweep.json").write_text("{}")
        killed_at(0)
        for number in count(1, every):
            old = page()
            finish_runs(0.1 + (number % 50) / 100)
            killed = killed_at(number)
            after = page()
            killed_at(0)
            new = page()
            left = [path.name for path in Path("out").glob(f".*{PART}")]
            tally.add(None not in (old, after, new) and after in (old, new) and left == [], f"operation {number}")
            if not killed:
                tally.tried -= 1
                return tally
    raise AssertionError("unreachable: there are numbers enough")
