"""What the integrator misses between looks: with the true drift, under the policies of a run, over what noise moves.

    python benchmarks/integration.py RUN [RUN ...]

A trained policy can be so steep that its closed loop changes within a gap. Each line has a method, its steps per gap
of the run's longest length, and the root mean square of its error over g * sqrt(gap), per coordinate: what is far
below 1 does not show in a likelihood; what is not is taken for diffusion.
"""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp

from ctmle.data.dataset import sample_transitions
from ctmle.dynamics.integrate import SolverKind, mean_path
from ctmle.dynamics.transition import closed_loop
from ctmle.experiments.session import Session

METHODS: tuple[tuple[SolverKind, int], ...] = tuple(
    (solver, steps) for steps in (1, 2, 4) for solver in ("rk3", "rk4", "dopri5")
)


def errors(path: str) -> dict[str, list[float]]:
    session = Session.take_up(path)
    run = session.job
    if session.checkpoint is None:
        raise SystemExit(f"{path}: no checkpoint to read the data from")
    data = run.restore(session.checkpoint).data
    batch = sample_transitions(data, jax.random.key(0), subsequences=200, length=5, chained=False)
    control = closed_loop(run.spec, batch.policies)

    def drift(t: jax.Array, y: jax.Array) -> jax.Array:
        return jax.vmap(jax.vmap(run.env.drift))(y, control(t, y))

    exact = mean_path(drift, batch.t, batch.y, batch.gap, 64, "rk4")[-1]
    g = jax.vmap(jax.vmap(run.env.diffusion))(batch.y, batch.u)
    moved = g * jnp.sqrt(jnp.maximum(batch.gap, 1e-4))[..., None]
    found = {}
    for solver, steps in METHODS:
        missed = (mean_path(drift, batch.t, batch.y, batch.gap, steps, solver)[-1] - exact) / moved
        found[f"{solver}, {steps} steps"] = jnp.sqrt(jnp.mean(missed**2, axis=(0, 1))).tolist()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", help="run folders with checkpoints, of noisy systems")
    for path in parser.parse_args().runs:
        print(Path(path).name)
        for name, sizes in errors(path).items():
            print(f"  {name}: {' '.join(f'{size:.3f}' for size in sizes)}", flush=True)


if __name__ == "__main__":
    main()
