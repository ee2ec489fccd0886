"""What safety costs: checkpoints as a share of a default run's time, and the seconds that resuming adds.

    python benchmarks/overhead.py [--environment pendulum] [--episodes 2]

The last episode counts, so that compilation does not.
"""

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from ctmle.config import preset
from ctmle.lab.run import Run
from ctmle.lab.storage import RunFolder


def measure(environment: str, episodes: int, folder: Path) -> dict[str, float]:
    """Seconds of one episode, of its writing, and of getting a run back from its files."""
    config = replace(preset(environment, "default"), episodes=episodes, out=str(folder / "run"))
    run, kept = Run(config), RunFolder.create(config)
    records, saving = [], 0.0
    started = time.perf_counter()
    for chunk, moment in enumerate(run.steps(run.init()), start=1):
        begun = time.perf_counter()
        if moment.record is not None:
            records.append(moment.record)
            run.save_parts(kept, moment.state)
            kept.write_metrics(records)
        if moment.resumable and (moment.record is not None or chunk % config.checkpoint_every == 0):
            run.save_checkpoint(kept, moment.state, records)
        saving += time.perf_counter() - begun
        if moment.record is not None and len(records) == episodes - 1:  # the last episode starts here
            started, saving = time.perf_counter(), 0.0
    episode = time.perf_counter() - started
    begun = time.perf_counter()
    again = Run(RunFolder.open(kept.path).read_config())
    again.restore(kept.read_checkpoint())
    return {"episode": episode, "saving": saving, "loading": time.perf_counter() - begun}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environment", default="pendulum")
    parser.add_argument("--episodes", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(arguments.environment, arguments.episodes, Path(folder))
    print(
        f"{arguments.environment}: an episode of {found['episode']:.1f} s, of which writing files takes"
        f" {found['saving']:.3f} s ({found['saving'] / found['episode']:.2%}); getting a run back from its files takes"
        f" {found['loading']:.2f} s"
    )


if __name__ == "__main__":
    main()
