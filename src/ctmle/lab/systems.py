"""Environments by name, by file or by module: where they are, how they are imported, how they are written down."""

import hashlib
import importlib.util
import inspect
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from ctmle.envs.base import Env, Spec, sensor_with
from ctmle.envs.observation import Observation, ObservationKind
from ctmle.options import describe
from ctmle.registry import ENVIRONMENTS


def load_environment(name: str) -> type[Env]:
    """Import an environment by its registered name, as "file.py:Class" or as "package.module:Class"."""
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


def location_of(env: Env) -> str:
    """Say where an environment's class can be imported from: its registered name, a module, or a file."""
    kind = type(env)
    registered = ENVIRONMENTS.name_of(kind)
    if registered is not None:
        return registered
    if kind.__module__ == "__main__" or kind.__module__.startswith(FILE_MODULE):
        return f"{inspect.getsourcefile(kind)}:{kind.__qualname__}"
    return f"{kind.__module__}:{kind.__qualname__}"


def system_to_json(env: Env, environment: str, observation: ObservationKind) -> dict[str, Any]:
    """Write down an environment: where its class is, its settings, a digest of its source, and what an agent knows."""
    place, _, kind = environment.rpartition(":")
    spec = env.spec_for(observation)
    return {
        "environment": f"{Path(place).absolute()}:{kind}" if place.endswith(".py") else environment,
        "settings": describe(env)["settings"],
        "source": source_digest(env),
        "spec": {
            "state_names": list(env.state_names),
            "angles": list(spec.observation.angles),
            "observation": spec.observation.kind,
            "control_low": list(spec.control_low),
            "control_high": list(spec.control_high),
            "horizon": spec.horizon,
            "kinematics": [list(pair) for pair in spec.kinematics],
            "hold": spec.hold,
            "sensor_noise": env.sensor_noise,
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
    return Spec(missing, missing, observation, *bounds, content["horizon"], **known)


def source_digest(env: Env) -> str | None:
    """Return a digest of the source file of an environment's class; None if there is none to read."""
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
