"""Engines by name. Ray is loaded only by its own."""

from ctmle.lab.sweeps.engines.base import Engine
from ctmle.lab.sweeps.engines.local import LocalEngine

__all__ = ["Engine", "LocalEngine", "make_engine"]


def make_engine(name: str, *, address: str | None = None, workers: int | None = None, threads: int = 1) -> Engine:
    """As the command line asks for one. Raises ValueError for what this machine cannot give."""
    if name == "ray":
        from ctmle.lab.sweeps.engines.ray import RayEngine

        return RayEngine(address, workers, threads)
    if address is not None:
        raise ValueError(f"--address {address} is for --engine ray: add that, or leave out the address")
    return LocalEngine(workers, threads)
