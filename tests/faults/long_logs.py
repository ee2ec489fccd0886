"""A run with a log of a million episodes, and checkpoints with seven digits, through every command that reads them.

python tests/faults/table.py --only long_logs        (`make faults` runs all classes)
"""

import tempfile
import time
from contextlib import chdir
from pathlib import Path

from commands import memory, run  # pyright: ignore[reportMissingImports]
from mutants import experiment  # pyright: ignore[reportMissingImports]
from tally import Tally  # pyright: ignore[reportMissingImports]

from ctmle.lab.session import Session
from ctmle.lab.storage import RunFolder

SECONDS = 300
"""No command may take longer."""
BYTES_PER_RECORD, BYTES = 1500, 300_000_000
"""A command may take so much memory for each record of the log, and so much in any case."""


def make_run(episodes: int) -> RunFolder:
    """Train one episode, then write a log as if so many had been tested, and a checkpoint that vouches for it."""
    Session.begin(experiment(out="run", episodes=1)).train()
    folder = RunFolder.open("run")
    state, (record,) = folder.read_checkpoint(), folder.read_metrics()
    log = folder.write_log([])
    for first in range(0, episodes, 10_000):
        last = min(episodes, first + 10_000)
        log.append(*({**record, "episode": n + 1, "score": n / episodes} for n in range(first, last)))
    for path in folder.checkpoints:
        path.rename(path.with_name(f"{999_998 + int(path.stem):06d}.safetensors"))
    folder.save_checkpoint(state.arrays, log.mark, finished=True, keep=2)
    folder.save_checkpoint(state.arrays, log.mark, finished=True, keep=2)
    return folder


def attack(episodes: int = 1_000_000) -> Tally:
    """Compare, evaluate and resume the run; then notice that one of its scores was edited."""
    tally, commands = Tally(), {"compare": ["run"], "evaluate": ["run"], "resume": ["run"]}
    with tempfile.TemporaryDirectory() as name, chdir(name):
        folder = make_run(episodes)
        tally.add([path.name for path in folder.checkpoints][-1] > "1000000", "a checkpoint with seven digits")
        for command, arguments in commands.items():
            before, started = memory(), time.monotonic()
            told = run(command, *arguments, seconds=SECONDS)
            tally.note += f"{command} {time.monotonic() - started:.0f} s, +{(memory() - before) / 1e6:.0f} MB; "
            frugal = memory() - before < BYTES + BYTES_PER_RECORD * episodes
            tally.add(told.code == 0 and frugal, f"{command}: {told}")
        content = Path("run/metrics.jsonl").read_bytes()
        middle = content.index(b'"score": 0.5')
        Path("run/metrics.jsonl").write_bytes(content[: middle + 10] + b"6" + content[middle + 11 :])
        tally.add(run("compare", "run", seconds=SECONDS).is_a_sentence, "an edited score")
    return tally
