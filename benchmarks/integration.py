"""What the integrator misses between looks: with the true drift, under the policies of a run, over what noise moves.

    python benchmarks/integration.py RUN [RUN ...]

A trained policy can be so steep that its closed loop changes within a gap. Each line has a method, its steps per gap
of the run's longest length, and the root mean square of its error over g * sqrt(gap), per coordinate: what is far
below 1 does not show in a likelihood; what is not is taken for diffusion. Last, the variance by the transition law over
that of simulated paths, in the median over gaps of more than half the longest length, by the segments of a gap.
"""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp

from ctmle.data.batches import Transitions, sample_transitions
from ctmle.data.drive import ControlLaw
from ctmle.envs import Env
from ctmle.lab.session import Session
from ctmle.models import SDE, Gap, LinearisedMoments
from ctmle.models.integrate import SolverKind, mean_path
from ctmle.models.laws import LONGEST_SEGMENT

METHODS: tuple[tuple[SolverKind, int], ...] = tuple(
    (solver, steps) for steps in (1, 2, 4) for solver in ("rk3", "rk4", "dopri5")
)


SIMULATED = 400
FINE = 64


class Truth(SDE):
    """The true system, as a model."""

    env: Env

    def drift(self, y: jax.Array, u: jax.Array) -> jax.Array:
        return jax.vmap(jax.vmap(self.env.drift))(y, u)

    def diffusion(self, y: jax.Array, u: jax.Array) -> jax.Array:
        return jax.vmap(jax.vmap(self.env.diffusion))(y, u)


def simulated_variance(truth: Truth, control: ControlLaw, batch: Transitions) -> jax.Array:
    """At the ends of gaps, over paths of Euler-Maruyama in fine steps."""
    h = batch.gap / FINE

    def end(key: jax.Array) -> jax.Array:
        noise = jax.random.normal(key, (FINE, *batch.y.shape)) * jnp.sqrt(h)[..., None]

        def step(y: jax.Array, parts: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
            i, dw = parts
            u = control(batch.t + i * h, y)
            return y + h[..., None] * truth.drift(y, u) + truth.diffusion(y, u) * dw, None

        return jax.lax.scan(step, batch.y, (jnp.arange(FINE, dtype=h.dtype), noise))[0]

    return jnp.var(jax.jit(lambda keys: jax.lax.map(end, keys))(jax.random.split(jax.random.key(1), SIMULATED)), axis=0)


def variances(truth: Truth, control: ControlLaw, batch: Transitions) -> dict[str, list[float]]:
    simulated = simulated_variance(truth, control, batch)
    long = batch.gap > 0.5 * jnp.max(batch.gap)
    found = {}
    for segments in (1, 2, 4):
        how = LinearisedMoments("rk3", LONGEST_SEGMENT * segments / 8)
        law = how(truth, Gap(control, batch.t, batch.y, batch.gap, segments * LONGEST_SEGMENT))
        ratio = jnp.diagonal(law.covariance(), axis1=-2, axis2=-1) / simulated
        found[f"variance, {segments} segments"] = jnp.median(ratio[long], axis=0).tolist()
    return found


def errors(path: str) -> dict[str, list[float]]:
    session = Session.resume(path)
    run = session.job
    if session.checkpoint is None:
        raise SystemExit(f"{path}: no checkpoint to read the data from")
    data = run.restore(session.checkpoint).data
    batch = sample_transitions(data, jax.random.key(0), subsequences=40, length=5, chained=False)
    truth, control = Truth(run.simulated.env), batch.drives.control(run.spec)

    def drift(t: jax.Array, y: jax.Array) -> jax.Array:
        return truth.drift(y, control(t, y))

    exact = mean_path(drift, batch.t, batch.y, batch.gap, 64, "rk4")[-1]
    moved = truth.diffusion(batch.y, batch.u) * jnp.sqrt(jnp.maximum(batch.gap, 1e-4))[..., None]
    found = {}
    for solver, steps in METHODS:
        missed = (mean_path(drift, batch.t, batch.y, batch.gap, steps, solver)[-1] - exact) / moved
        found[f"{solver}, {steps} steps"] = jnp.sqrt(jnp.mean(missed**2, axis=(0, 1))).tolist()
    return found | variances(truth, control, batch)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", help="run folders with checkpoints, of noisy systems")
    for path in parser.parse_args().runs:
        print(Path(path).name)
        for name, sizes in errors(path).items():
            print(f"  {name}: {' '.join(f'{size:.3f}' for size in sizes)}", flush=True)


if __name__ == "__main__":
    main()
