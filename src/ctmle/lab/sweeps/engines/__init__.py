"""Engines, which do the runs of a sweep, by name. Ray is imported only if it is asked for."""

from ctmle.lab.sweeps.engines.base import Engine
from ctmle.lab.sweeps.engines.local import LocalEngine

__all__ = ["Engine", "LocalEngine", "make_engine"]


def make_engine(name: str, *, address: str | None = None, workers: int | None = None, threads: int = 1) -> Engine:
    """Make the engine that the command line asks for. Raises ValueError if this machine cannot provide it."""
    if name == "ray":
        from ctmle.lab.sweeps.engines.ray import RayEngine

        return RayEngine(address, workers, threads)
    if address is not None:
        raise ValueError(f"--address {address} is for --engine ray: add that, or leave out the address")
    return LocalEngine(workers, threads)
