"""What safety costs: checkpoints as a share of a default run's time, and the seconds that resuming adds.

    python benchmarks/overhead.py [--environment pendulum] [--episodes 2]

The last episode counts, so that compilation does not.
"""

import argparse
import tempfile
import time
from pathlib import Path

from ctmle.lab.experiment import from_settings
from ctmle.lab.run import Run
from ctmle.lab.session import save_checkpoint
from ctmle.lab.storage.run_folder import RunFolder
from ctmle.lab.storage.trees import save_tree


def measure(environment: str, episodes: int, folder: Path) -> dict[str, float]:
    """Seconds of one episode, of its writing, and of getting a run back from its files."""
    experiment = from_settings({"environment": environment, "episodes": episodes, "out": str(folder / "run")})
    run, kept = Run(experiment), RunFolder.create(experiment)
    records, saving, log = [], 0.0, kept.continue_log()
    started = time.perf_counter()
    for chunk, moment in enumerate(run.steps(run.init()), start=1):
        begun = time.perf_counter()
        if moment.record is not None:
            records.append(moment.record)
            for name, part in run.agent.parts(moment.state).items():
                save_tree(kept.tensors(name), part)
            log.append(moment.record)
        if moment.resumable and (moment.record is not None or chunk % experiment.files.checkpoint_every == 0):
            save_checkpoint(kept, experiment, moment.state, log)
        saving += time.perf_counter() - begun
        if moment.record is not None and len(records) == episodes - 1:  # the last episode starts here
            started, saving = time.perf_counter(), 0.0
    episode = time.perf_counter() - started
    begun = time.perf_counter()
    again = Run(RunFolder.open(kept.path).read_experiment())
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
