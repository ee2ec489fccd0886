"""One dynamics update and one policy update of CT-MLE with networks, beside this machine's own matmul peak.

    python benchmarks/updates.py [--preset default|paper] [--threads N]

The default preset has networks here (`--model ensemble`).

The peak is the best rate of the batched product of hidden layers by itself, on as many cores, measured in the same
run. `products` is the time that matrix products take inside an update, by JAX's profiler. Ratios are what to look at:
the machine may be busy. The last line is the same as JSON.
"""

import argparse
import gzip
import json
import re
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cost_model
import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from ctmle.lab.experiment import from_settings
from ctmle.lab.machine import use_threads
from ctmle.lab.run import Run
from ctmle.training.devices import MEMBERS, mesh_for

UPDATES = 20
CHAIN = 50
KINDS = {
    "products": ("dot", "ynn", "xnn", "onednn"),
    "exchange between cores": ("all-",),
    "copies": ("copy", "wrapped_copy", "bitcast_dynamic-update-slice", "dynamic-slice"),
}
"""What the kernels of a processor are called; all others are elementwise."""
KERNEL = re.compile(r"(?!while|call|end|conditional)[a-z][a-z0-9_-]*(\.[0-9]+)*$")
"""And not what contains them, or Python."""


@dataclass(frozen=True)
class Measured:
    """An update, and the product of its hidden layers alone."""

    name: str
    milliseconds: float
    gigaflop: float
    kernels: dict[str, float]
    """Milliseconds of it on each core, by what they are spent on."""
    peak: float
    """GFLOP/s of the product alone."""

    @property
    def rate(self) -> float:
        return 1e3 * self.gigaflop / self.milliseconds

    def as_dict(self) -> dict[str, Any]:
        return {
            **vars(self),
            "share_of_peak": self.rate / self.peak,
            "products_share_of_peak": 1e3 * self.gigaflop / self.kernels["products"] / self.peak,
        }

    def line(self) -> str:
        found = self.as_dict()
        return (
            f"{self.name}: {self.milliseconds:.1f} ms, {self.gigaflop:.2f} GFLOP, {self.rate:.0f} GFLOP/s;"
            f" product alone {self.peak:.0f} GFLOP/s; share of it: whole update {found['share_of_peak']:.0%},"
            f" its products {found['products_share_of_peak']:.0%}\n"
            "  of each core's time, profiled: " + ", ".join(f"{name} {ms:.1f} ms" for name, ms in self.kernels.items())
        )


def best_seconds(call: Callable[[], Any], repeats: int) -> float:
    jax.block_until_ready(call())
    best = float("inf")
    for _ in range(repeats):
        started = time.perf_counter()
        jax.block_until_ready(call())
        best = min(best, time.perf_counter() - started)
    return best


def peak(width: int, members: int, rows: int, ensemble: Any) -> float:
    """GFLOP/s of a chain of products at the shape of a hidden layer, spread over devices as updates are."""
    x = jax.random.normal(jax.random.key(0), (members, rows, width))
    w = jax.random.normal(jax.random.key(1), (members, width, width)) / width**0.5
    if (mesh := mesh_for(ensemble)) is not None:
        x, w = jax.device_put((x, w), NamedSharding(mesh, PartitionSpec(MEMBERS)))

    @jax.jit
    def chain(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, CHAIN, lambda _, x: jnp.einsum("ebi,eio->ebo", x, w), x)

    return CHAIN * 2 * members * rows * width**2 / best_seconds(lambda: chain(x, w), 20) / 1e9


def kernel_milliseconds(call: Callable[[], Any]) -> dict[str, float]:
    """Per update and core, by the profiler's record of all kernels. (It slows what it watches by a few percent.)"""
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            jax.block_until_ready(call())
        (file,) = Path(folder).rglob("*.trace.json.gz")
        events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
    spent = dict.fromkeys((*KINDS, "elementwise"), 0.0)
    for event in events:
        name = event.get("name", "")
        if event.get("ph") == "X" and KERNEL.match(name):
            kind = next((kind for kind, names in KINDS.items() if name.startswith(names)), "elementwise")
            spent[kind] += event["dur"] / 1e3 / UPDATES / jax.local_device_count()
    return spent


def measure(preset_name: str) -> list[Measured]:
    many = {"chunk": UPDATES, "dynamics_updates": 10**6, "policy_updates": 10**6}
    experiment = from_settings({"environment": "pendulum", "preset": preset_name, "model": "ensemble", **many})
    run, options = Run(experiment), experiment.settings
    agent, spec = run.agent, run.spec
    state = agent.init(spec, jax.random.key(0))
    while agent.progress(state).episode == 0:
        state, policy, looks = agent.propose(state, run.schedule)
        state = agent.observe(state, run.act(state, policy, looks))
    members, particles = options["ensemble"], options["particles"]
    cases = (
        ("dynamics update", cost_model.dynamics_update(options, spec), cost_model.samples_of(options)),
        ("policy update", cost_model.policy_update(options, spec), particles // members),
    )
    found = []
    for stage, (name, flops, rows) in enumerate(cases):
        start = replace(state, stage=jnp.asarray(stage, jnp.int32))

        def updates(start: Any = start) -> Any:
            return agent.advance(start, run.schedule)

        seconds = best_seconds(updates, 5) / UPDATES
        best = peak(options["dynamics_hidden"][0], members, rows, state.trained["learner"])
        found.append(Measured(name, 1e3 * seconds, flops / 1e9, kernel_milliseconds(updates), best))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="default", choices=["default", "paper"])
    parser.add_argument("--threads", type=int)
    arguments = parser.parse_args()
    use_threads(arguments.threads)
    found = measure(arguments.preset)
    print(f"preset {arguments.preset}, {jax.local_device_count()} x {jax.devices()[0].device_kind}")
    for measured in found:
        print(measured.line())
    print(json.dumps([measured.as_dict() for measured in found]))


if __name__ == "__main__":
    main()
