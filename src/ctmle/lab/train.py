"""`ctmle.train` and `ctmle.load`."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ctmle.agents.base import Agent
from ctmle.agents.ct_mle import CTMLE
from ctmle.lab.experiment import Evaluation, Experiment, Files, Training, parts_from_json
from ctmle.lab.machine import numerics
from ctmle.lab.run import Record, Run, Saved
from ctmle.lab.session import Session, save_checkpoint
from ctmle.lab.storage.files import only_writer
from ctmle.lab.storage.log import read_records
from ctmle.lab.storage.run_folder import RunFolder
from ctmle.lab.storage.trees import save_tree
from ctmle.lab.systems import is_trusted, location_of, options_of, spec_from_json, system_of
from ctmle.options import apply, flat
from ctmle.plants.simulated import SimulatedSDE
from ctmle.registry import AGENTS
from ctmle.schedules.base import Schedule
from ctmle.schedules.grid import Equidistant


@dataclass(frozen=True)
class Result:
    """What a run learned. `model` is None for agents without one; `experiment` if the environment's code is missing."""

    agent: Agent
    state: Any
    records: list[Record]
    experiment: Experiment | None = None

    @property
    def policy(self) -> Any:
        """The last policy, as a controller: `policy(t, y)`."""
        return self.agent.policy(self.state)

    @property
    def critic(self) -> Any:
        return self.agent.parts(self.state)["critic"]

    @property
    def model(self) -> Any:
        return self.agent.parts(self.state).get("model")

    @property
    def data(self) -> Any:
        return self.agent.parts(self.state)["data"]

    def save(self, folder: str | Path) -> None:
        """Save the run in a new folder, as `ctmle train` would have left it."""
        if self.experiment is None:
            raise ValueError("this run was loaded without its environment's code: copy its folder instead")
        experiment = replace(self.experiment, files=replace(self.experiment.files, out=str(folder)))
        there = RunFolder.create(experiment, numerics())
        with only_writer(there.path):
            for name, part in self.agent.parts(self.state).items():
                save_tree(there.tensors(name), part)
            save_checkpoint(there, experiment, self.state, there.write_log(self.records))


def train(
    plant_or_env: Any,
    agent: Agent | None = None,
    schedule: Schedule | None = None,
    *,
    episodes: int = 5,
    seed: int = 0,
    evaluation: Evaluation | None = None,
    out: str | Path | None = None,
    progress: Callable[[Record], None] | None = None,
) -> Result:
    """Learn to control a system; test the policy after every episode.

    The system is an environment of ctmle or of your own (`envs.Env`), a plant, or a Gymnasium environment. Without an
    agent it is CT-MLE; without a schedule it looks every 0.125 s, or as the system suggests.

    Without `out` nothing is written; with it, the folder is the one that `ctmle train` makes. `progress` is called with
    the record of every episode. Raises ValueError for settings that do not fit together or a system that
    `envs.check_env` finds fault with.
    """
    system, training = system_of(plant_or_env), Training(episodes=episodes, seed=seed)
    if isinstance(plant_or_env, SimulatedSDE):
        training = replace(training, observation=plant_or_env.observation, step=plant_or_env.step)
    chosen: Agent = _suited(CTMLE(), options_of(system).get("ct-mle", {})) if agent is None else agent
    experiment = Experiment(
        system,
        chosen,
        location_of(system),
        algorithm=_name_of(chosen),
        schedule=schedule or _suited(Equidistant(0.125), options_of(system).get("", {})),
        training=training,
        evaluation=evaluation or _suited(Evaluation(), options_of(system).get("", {})),
        files=Files(None if out is None else str(out)),
    )
    watcher = _Calls(progress)
    if out is not None:
        session = Session.begin(experiment)
        state = session.train((watcher,))
        return Result(chosen, state, session.folder.read_metrics(), experiment)
    job = Run(experiment)
    state, records = job.init(), []
    for moment in job.steps(state):
        state = moment.state
        if moment.record is not None:
            records.append(moment.record)
            watcher.episode(moment.record)
    return Result(chosen, state, records, experiment)


def load(folder: str | Path, environment: str | None = None, *, trust: bool = False) -> Result:
    """Load a run: its policy, critic, model, data and records, in any process and from wherever the folder is now.

    The environment's own code is imported only if it is part of ctmle, if it is named again, or with `trust`; nothing
    else needs it.
    """
    there = RunFolder.open(folder)
    content, experiment = there.read_settings(), None
    if trust or environment is not None or is_trusted(content["system"]["environment"]):
        job = Run(there.read_experiment(environment, trust=trust))
        saved, experiment = job.saved, job.experiment
    else:
        parts = parts_from_json(content)
        spec = spec_from_json(content["system"]["spec"])
        saved = Saved(parts["agent"], parts["schedule"], spec, parts["training"].episodes)
    checkpoint = there.read_checkpoint(saved.fits)
    records = list(read_records(there.metrics_file, checkpoint.log))
    return Result(saved.agent, saved.restore(checkpoint), records, experiment)


def _suited(part: Any, options: dict[str, Any]) -> Any:
    """Return a part with those of a system's options that it has."""
    known = flat(part)
    return apply(part, {name: value for name, value in options.items() if name in known})


def _name_of(agent: Agent) -> str:
    """Return the registered name of an agent of the same composition, or its class."""
    known = {name: AGENTS.load(name)() for name in AGENTS.names}
    kin = [name for name, other in known.items() if type(other) is type(agent)]
    learner = type(getattr(agent, "learner", None))
    same = [name for name in kin if type(getattr(known[name], "learner", None)) is learner]
    return next(iter(same or kin), type(agent).__name__)


class _Calls:
    """A watcher that calls a function with the record of every episode."""

    def __init__(self, function: Callable[[Record], None] | None):
        self.function = function

    def see(self, progress: Record) -> None: ...

    def episode(self, record: Record) -> None:
        if self.function is not None:
            self.function(record)
