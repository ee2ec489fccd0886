"""A run and its folder, begun or resumed: what `ctmle train`, `ctmle resume`, `ctmle.train` and sweeps share."""

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from ctmle.lab.experiment import Experiment
from ctmle.lab.interrupt import Interrupt, Interrupted
from ctmle.lab.machine import use_compilation_cache, use_threads
from ctmle.lab.run import Record, Run
from ctmle.lab.storage.files import only_writer
from ctmle.lab.storage.run_folder import Checkpoint, RunFolder, is_complete
from ctmle.lab.storage.trees import arrays_of, save_tree
from ctmle.settings import typed
from ctmle.training.failures import NotFinite


@runtime_checkable
class Watcher(Protocol):
    """Receives the progress of a run: a display, a test."""

    def see(self, progress: Record) -> None: ...
    def episode(self, record: Record) -> None: ...


@dataclass(frozen=True)
class Session:
    """A run, its folder, and the checkpoint to resume from, if it has one."""

    job: Run
    folder: RunFolder
    checkpoint: Checkpoint | None = None

    @staticmethod
    def begin(experiment: Experiment) -> "Session":
        """Begin in a new folder, made once the settings have proved to fit together."""
        use_threads(experiment.files.threads)
        job = Run(experiment)
        return Session(job, RunFolder.create(experiment))

    @staticmethod
    def resume(path: str | Path, environment: str | None = None, *, trust: bool = False) -> "Session":
        """Resume the run in a folder. Raises ValueError if there is none, or nothing that can be resumed."""
        folder = RunFolder.open(path)
        experiment = folder.read_experiment(environment, trust=trust)
        use_threads(experiment.files.threads)
        job = Run(experiment)
        return Session(job, folder, folder.read_checkpoint() if folder.checkpoints or folder.finished else None)

    def train(self, watchers: tuple[Watcher, ...] = (), interrupt: Interrupt | None = None) -> tuple[Any, list[Record]]:
        """Train to the end; return the agent's state and the records. What has been done is always on the disk.

        Raises Interrupted, with a checkpoint written, when a signal or whoever holds `interrupt` asks to stop;
        RuntimeError, which says why, for a run that cannot continue.
        """
        use_compilation_cache()
        try:
            return self._train(watchers, interrupt)
        except NotFinite as problem:
            raise RuntimeError(
                f"{problem}. The run stopped; its checkpoints in {self.folder.path} are from before the failure"
            ) from problem
        except OSError as error:
            raise RuntimeError(_what_to_do(self.folder, error)) from error

    def _train(self, watchers: tuple[Watcher, ...], interrupt: Interrupt | None) -> tuple[Any, list[Record]]:
        job, folder, files = self.job, self.folder, self.job.experiment.files
        state = job.init() if self.checkpoint is None else job.restore(self.checkpoint)
        records = [] if self.checkpoint is None else list(self.checkpoint.records)
        chunks = 0
        asking = Interrupt() if interrupt is None else nullcontext(interrupt)
        with only_writer(folder.path), asking as asked:
            folder.write_metrics(records)
            for moment in job.steps(state):
                state = moment.state
                if moment.record is not None:
                    records.append(moment.record)
                    for name, part in job.agent.parts(state).items():
                        save_tree(folder.tensors(name), part)
                    folder.write_metrics(records)
                for watcher in watchers:
                    watcher.see(moment.progress)
                    if moment.record is not None:
                        watcher.episode(moment.record)
                chunks += 1
                due = moment.record is not None or chunks % files.checkpoint_every == 0
                if moment.resumable and (due or asked.received):
                    save_checkpoint(folder, job.experiment, state, records)
                if moment.resumable and asked.received:
                    raise Interrupted(asked.received)
        return state, records


def save_checkpoint(folder: RunFolder, experiment: Experiment, state: Any, records: list[Record]) -> None:
    """Write the agent's state and the records so far."""
    training = experiment.training
    finished = is_complete(training.episodes, training.stop_at_success, records)
    folder.save_checkpoint(arrays_of(state), records, finished=finished, keep=experiment.files.checkpoints_kept)


def _what_to_do(folder: RunFolder, error: OSError) -> str:
    """Name the fix for a disk that is full, or a folder that is gone or not writable."""
    reason = error.strerror or str(error)
    if not folder.config_file.exists():
        return f"the run folder {folder.path} was deleted while the run was going on ({reason}): start the run again"
    return (
        f"cannot write to {folder.path} ({reason}); what was saved before is intact."
        f" Fix that, then continue with: {typed('resume', folder.path)}"
    )
