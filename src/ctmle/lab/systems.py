"""Environments by name, by file or by module: where they are, how they are imported, how they are written down."""

import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from ctmle.envs.base import Env, Spec, sensor_with
from ctmle.envs.observation import Observation, ObservationKind
from ctmle.options import describe
from ctmle.plants.base import Plant
from ctmle.plants.simulated import SimulatedSDE
from ctmle.registry import ENVIRONMENTS

System = Env | Plant
"""What can be controlled: an SDE, which is simulated, or a plant that runs by itself."""

GYMNASIUM = "gymnasium:"
"""What names of Gymnasium environments begin with."""


def load_environment(name: str) -> Callable[..., System]:
    """Import an environment by its registered name, as "file.py:Class", "package.module:Class" or "gymnasium:ID"."""
    if name.startswith(GYMNASIUM):
        from ctmle.plants.gymnasium import GymnasiumPlant

        return partial(GymnasiumPlant, name.removeprefix(GYMNASIUM))
    if ":" not in name:
        return ENVIRONMENTS.load(name)
    place, _, kind = name.rpartition(":")
    module = _import_file(Path(place)) if place.endswith(".py") else _import_module(place)
    found = getattr(module, kind, None)
    if inspect.isclass(found) and issubclass(found, Env):
        return found
    own = [c.__name__ for c in vars(module).values() if inspect.isclass(c) and issubclass(c, Env) and c is not Env]
    there = f"it has {', '.join(own)}" if own else "it has none"
    raise ValueError(f"{place} has no subclass of ctmle.envs.Env called '{kind}': {there}")


def system_of(given: Any) -> System:
    """Return the system behind what a user gave: an environment, a plant, or an environment of Gymnasium."""
    if isinstance(given, SimulatedSDE):
        return given.env
    if isinstance(given, Env | Plant):
        return given
    if hasattr(given, "action_space"):
        from ctmle.plants.gymnasium import GymnasiumPlant

        return GymnasiumPlant.of(given)
    raise ValueError(f"{type(given).__name__} is no system: give an envs.Env, a plant or a Gymnasium environment")


def is_trusted(environment: str) -> bool:
    """Tell whether a run folder may name this environment: it is registered here, or with Gymnasium by its plain id."""
    plain = environment.startswith(GYMNASIUM) and environment.count(":") == 1
    return plain or environment in ENVIRONMENTS.names


def spec_of(system: System, observation: ObservationKind = "angles") -> Spec:
    """Return what an agent may know of a system."""
    return system.spec_for(observation) if isinstance(system, Env) else system.spec


def plant_of(system: System, step: float, observation: ObservationKind) -> Plant:
    """Return what is driven: an SDE is simulated. Raises ValueError for coordinates that a plant does not have."""
    if isinstance(system, Env):
        return SimulatedSDE(system, step, observation)
    if observation != "angles":
        raise ValueError(f"observation {observation}: {name_of(system)} is seen as it comes: choose angles")
    return system


def options_of(system: System) -> dict[str, dict[str, Any]]:
    """Return the options that suit a system: for every agent under "", for one agent under its name."""
    return getattr(system, "tuned", {})


def name_of(system: System) -> str:
    """Name a system in a sentence: its id, or its class."""
    return type(system).__name__ if isinstance(system, Env) else getattr(system, "id", type(system).__name__)


def location_of(env: System) -> str:
    """Say where an environment's class can be imported from: its registered name, a module, or a file."""
    if isinstance(env, Plant) and hasattr(env, "id"):
        return f"{GYMNASIUM}{name_of(env)}"
    kind = type(env)
    registered = ENVIRONMENTS.name_of(kind)
    if registered is not None:
        return registered
    if kind.__module__ == "__main__" or kind.__module__.startswith(FILE_MODULE):
        return f"{inspect.getsourcefile(kind)}:{kind.__qualname__}"
    return f"{kind.__module__}:{kind.__qualname__}"


def system_to_json(env: System, environment: str, observation: ObservationKind) -> dict[str, Any]:
    """Write down an environment: where its class is, its settings, a digest of its source, and what an agent knows."""
    place, _, kind = environment.rpartition(":")
    spec = spec_of(env, observation)
    names = env.state_names if isinstance(env, Env) else [f"y{i}" for i in range(spec.observation.state_size)]
    return {
        "environment": f"{Path(place).absolute()}:{kind}" if place.endswith(".py") else environment,
        "settings": describe(env)["settings"],
        "source": source_digest(env),
        "spec": {
            "state_names": list(names),
            "angles": list(spec.observation.angles),
            "observation": spec.observation.kind,
            "control_low": list(spec.control_low),
            "control_high": list(spec.control_high),
            "horizon": spec.horizon,
            "kinematics": [list(pair) for pair in spec.kinematics],
            "hold": spec.hold,
            "sensor_noise": getattr(env, "sensor_noise", 0.0),
            "unknown": [name for name in UNKNOWN if getattr(spec, name) is None],
        },
    }


def spec_from_json(content: dict[str, Any]) -> Spec:
    """Rebuild what an agent knows of a system, without the system's code: its reward and reset cannot be called."""

    def missing(*arguments: Any) -> Any:
        raise ValueError(
            "the environment's code was not loaded with this run: load it with trust=True, or name the environment"
        )

    observation = Observation(len(content["state_names"]), tuple(content["angles"]), content["observation"])
    bounds = (tuple(content["control_low"]), tuple(content["control_high"]))
    kinematics = tuple((position, velocity) for position, velocity in content.get("kinematics", ()))
    sensor = sensor_with(content.get("sensor_noise", 0.0))
    known = {"sensor": sensor, "kinematics": kinematics, "hold": content.get("hold")}
    reward, reset = (None if name in content.get("unknown", ()) else missing for name in UNKNOWN)
    return Spec(reward, reset, observation, *bounds, content["horizon"], **known)


UNKNOWN = ("state_reward", "state_reset")
"""What a spec need not know."""


def source_digest(env: System) -> str | None:
    """Return a digest of the source file of an environment's class; None if there is none to read."""
    if not isinstance(env, Env):
        return None
    try:
        source = inspect.getsourcefile(type(env))
        return None if source is None else hashlib.sha256(Path(source).read_bytes()).hexdigest()
    except (OSError, TypeError):
        return None


FILE_MODULE = "ctmle_environment_"
"""Modules that are imported from a file by its path have names that start with this."""


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    name = f"{FILE_MODULE}{path.stem}_{hashlib.sha256(str(path.absolute()).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ValueError(f"{path} cannot be imported ({type(error).__name__}: {error})") from error
    return module


def _import_module(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError as error:
        raise ValueError(f"module {name} cannot be imported ({error})") from error
