"""A run and its folder, begun or resumed: what `ctmle train`, `ctmle resume`, `ctmle.train` and sweeps share."""

import logging
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from ctmle.lab.experiment import Experiment
from ctmle.lab.interrupt import Interrupt, Interrupted
from ctmle.lab.machine import differences, numerics, use_compilation_cache, use_threads
from ctmle.lab.run import Record, Run
from ctmle.lab.storage.files import only_writer
from ctmle.lab.storage.log import Log, Mark
from ctmle.lab.storage.run_folder import Checkpoint, RunFolder
from ctmle.lab.storage.trees import arrays_of, save_tree
from ctmle.settings import typed
from ctmle.training.failures import NotFinite

MOST_THREADS = 4096
"""A run that says it had more threads was not made by ctmle."""

logger = logging.getLogger("ctmle")


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
        return Session(job, RunFolder.create(experiment, numerics()))

    @staticmethod
    def resume(
        path: str | Path, environment: str | None = None, *, trust: bool = False, accept_different: bool = False
    ) -> "Session":
        """Resume the run in a folder. Raises ValueError if there is none, or nothing that can be resumed.

        The run gets the threads that it had. Whatever else would change its bytes is an error, or a warning with
        `accept_different`.
        """
        folder = RunFolder.open(path)
        experiment, content = folder.read_experiment(environment, trust=trust), folder.read_settings()
        machine = _table(content, "machine")
        use_threads(machine.get("threads") or experiment.files.threads)
        odd = differences(machine, _table(content, "versions"))
        if odd and not folder.finished:
            told = f"{folder.path}: {'; '.join(odd)}"
            if not accept_different:
                raise ValueError(
                    f"{told}. The run would not end with the same bytes: continue it as it was begun, or pass"
                    " --accept-different"
                )
            logger.warning("%s. The run does not end with the same bytes as one that was never stopped", told)
        job = Run(experiment)
        there = folder.checkpoints or folder.finished
        return Session(job, folder, folder.read_checkpoint(job.fits) if there else None)

    def train(self, watchers: tuple[Watcher, ...] = (), interrupt: Interrupt | None = None) -> Any:
        """Train to the end; return the agent's state. What has been done is always on the disk.

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

    def _train(self, watchers: tuple[Watcher, ...], interrupt: Interrupt | None) -> Any:
        job, folder, files, checkpoint = self.job, self.folder, self.job.experiment.files, self.checkpoint
        state = job.init() if checkpoint is None else job.restore(checkpoint)
        chunks = 0
        asking = Interrupt() if interrupt is None else nullcontext(interrupt)
        with only_writer(folder.path), asking as asked:
            log = folder.continue_log(Mark() if checkpoint is None else checkpoint.log)
            for moment in job.steps(state):
                state = moment.state
                if moment.record is not None:
                    for name, part in job.agent.parts(state).items():
                        save_tree(folder.tensors(name), part)
                    log.append(moment.record)
                for watcher in watchers:
                    watcher.see(moment.progress)
                    if moment.record is not None:
                        watcher.episode(moment.record)
                chunks += 1
                due = moment.record is not None or chunks % files.checkpoint_every == 0
                if moment.resumable and (due or asked.received):
                    save_checkpoint(folder, job.experiment, state, log)
                if moment.resumable and asked.received:
                    raise Interrupted(asked.received)
        return state


def save_checkpoint(folder: RunFolder, experiment: Experiment, state: Any, log: Log) -> None:
    """Write the agent's state and the mark of the log so far."""
    training = experiment.training
    finished = log.last_episode >= training.episodes or (training.stop_at_success and log.succeeded)
    folder.save_checkpoint(arrays_of(state), log.mark, finished=finished, keep=experiment.files.checkpoints_kept)


def _table(content: dict[str, Any], name: str) -> dict[str, Any]:
    """Return an entry of a config.json that is itself a table. Raises ValueError if it is something else."""
    found = content.get(name)
    threads = found.get("threads", 1) if isinstance(found, dict) else None
    if not isinstance(found, dict) or type(threads) is not int or not 0 < threads <= MOST_THREADS:
        raise ValueError(f"config.json has something else than ctmle writes as '{name}': restore it from a copy")
    return found


def _what_to_do(folder: RunFolder, error: OSError) -> str:
    """Name the fix for a disk that is full, or a folder that is gone or not writable."""
    reason = error.strerror or str(error)
    if not folder.config_file.exists():
        return f"the run folder {folder.path} was deleted while the run was going on ({reason}): start the run again"
    return (
        f"cannot write to {folder.path} ({reason}); what was saved before is intact."
        f" Fix that, then continue with: {typed('resume', folder.path)}"
    )
