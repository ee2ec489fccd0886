"""For how many coordinates a basis is the better model, and where networks take over.

    python benchmarks/dimensions.py [--sizes 2 4 8] [--seconds 10 40] [--controls 1] [--updates 3000] [--seed 0]

A made-up chain of oscillators with positions q and velocities v, half of the coordinates each:

    v_i' = -4 q_i - 2 q_i^3 + 5 sin(q_(i+1) - q_i) + 5 sin(q_(i-1) - q_i) - 0.3 v_i + u_i,    q_i' = v_i,

whose first mass, or first and last, are pushed by a control of at most 6. Trajectories of 5 s under smooth random
signals start anywhere in a box; looks are 1/8 s apart, with a random one in each gap. A basis and five networks of
64 x 64 are fitted to the same looks, with default settings but for the networks' `--updates`: a default episode has
500, and with 1000 they are still far off. `--kinematics no` leaves the positions' drifts to be learned too.

`error` is the root mean square error of the accelerations over their own size, at the looks of eight fresh
trajectories: of the posterior mean, and of the mean of all members. `spread` is that of posterior samples or members
over this error. `fit` are the seconds of a fit that is compiled already. `first` are those of the one before, with
tracing and compilation: a whole fit of the basis, one update of the networks, which compile once for all data.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from drifts import drifts_at
from jaxtyping import Array, PRNGKeyArray

from ctmle.data import Dataset, Trajectory
from ctmle.envs import Env, Spec
from ctmle.lab.machine import use_threads
from ctmle.models import BasisLearner, Context, DiagonalNetwork, SDELearner, TrueSDE, Values, World
from ctmle.models.sde_learner import FIT
from ctmle.models.world import Learner, SpecReward
from ctmle.planning import Policy, init_feedback, random_signal
from ctmle.plants import simulate
from ctmle.schedules import Equidistant
from ctmle.training import Span, run_updates

GAP, EACH, HELD_OUT = 0.125, 5.0, 8
"""Seconds between looks, and of a trajectory; fresh trajectories."""
PUSH, NOISE = 6.0, 0.05
MEMBERS, HIDDEN = 5, (64, 64)
DATA, FRESH, FITS = range(3)
"""Random streams."""
MEASURED = ("error", "spread", "fit, s", "first, s")


class Chain(Env):
    """Oscillators in a row, each tied to its neighbours by a spring that gives way."""

    state_names: tuple[str, ...] = eqx.field(static=True)
    control_low: tuple[float, ...] = eqx.field(static=True)
    control_high: tuple[float, ...] = eqx.field(static=True)
    angles: tuple[int, ...] = eqx.field(static=True, default=())
    horizon: float = eqx.field(static=True, default=EACH)

    @staticmethod
    def of(size: int, controls: int) -> "Chain":
        names = tuple(f"{kind}{i}" for kind in "qv" for i in range(size // 2))
        return Chain(state_names=names, control_low=(-PUSH,) * controls, control_high=(PUSH,) * controls)

    @property
    def masses(self) -> int:
        return len(self.state_names) // 2

    def spec_with(self, kinematics: bool) -> Spec:
        pairs = tuple((i, self.masses + i) for i in range(self.masses))
        return replace(self.spec, kinematics=pairs if kinematics else ())

    def drift(self, x: Array, u: Array) -> Array:
        q, v = jnp.split(x, 2)
        spring = 5.0 * jnp.sin(jnp.diff(q))
        force = -4.0 * q - 2.0 * q**3 - 0.3 * v
        force = force.at[:-1].add(spring).at[1:].add(-spring).at[0].add(u[0])
        return jnp.concatenate([v, force if len(self.control_low) == 1 else force.at[-1].add(u[1])])

    def diffusion(self, x: Array, u: Array) -> Array:
        return jnp.full_like(x, NOISE)

    def reward(self, x: Array, u: Array) -> Array:
        return jnp.zeros(())

    def reset(self, key: PRNGKeyArray) -> Array:
        widths = jnp.repeat(jnp.asarray([1.0, 2.0]), self.masses)
        return widths * jax.random.uniform(key, (2 * self.masses,), minval=-1.0, maxval=1.0)


def trajectories(env: Env, count: int, key: PRNGKeyArray) -> Iterator[Trajectory]:
    """Simulate trajectories under smooth random signals."""
    idle = init_feedback(env.spec, key, (8,))
    for number in range(count):
        looks_key, signal_key, own_key = jax.random.split(jax.random.fold_in(key, number), 3)
        policy = Policy(idle, random_signal(env.spec, signal_key), jnp.zeros(()))
        yield simulate(env, policy, Equidistant(GAP).looks(looks_key, EACH), own_key)


def context_of(env: Env, spec: Spec, seconds: float, room: float, key: PRNGKeyArray) -> Context:
    """Return all that a learner knows after so many seconds, with room for more: networks compile once for all."""
    seen = list(trajectories(env, round(seconds / EACH), key))
    data = Dataset.empty(seen[0], round(room / EACH))
    for trajectory in seen:
        data = data.add(trajectory)
    world, nothing = World(TrueSDE(env), SpecReward(spec)), Values(None, None, 1.0)
    return Context(spec, data, world, nothing, jnp.asarray(1, jnp.int32), GAP)


def fitted(learner: Learner, context: Context, key: PRNGKeyArray, updates: int) -> Any:
    """Fit a model as the first episode of a run does, with so many updates."""
    state = learner.begin(learner.init(context.spec, key), context, 1)
    if updates:
        outcome = run_updates(learner, FIT.name, context, state, Span.of(0, updates, key))
        assert int(outcome.culprit) < 0, "NaN or inf in a fit"
        state = outcome.state
    return jax.block_until_ready(state)


def seconds_of(learner: Learner, context: Context, key: PRNGKeyArray, updates: int) -> tuple[Any, float]:
    started = time.perf_counter()
    return fitted(learner, context, key, updates), time.perf_counter() - started


def report(env: Chain, kinematics: bool, seconds: float, options: argparse.Namespace) -> None:
    key, spec = jax.random.key(options.seed), env.spec_with(kinematics)
    context = context_of(env, spec, seconds, max(options.seconds), jax.random.fold_in(key, DATA))
    fresh = list(trajectories(env, HELD_OUT, jax.random.fold_in(key, FRESH)))
    y, u = (jnp.concatenate([getattr(each, name) for each in fresh]) for name in ("states", "controls"))
    networks = SDELearner(members=MEMBERS, updates=options.updates, model=DiagonalNetwork(HIDDEN), optimism=None)
    cells = []
    for learner, updates in ((BasisLearner(), 0), (networks, options.updates)):
        _, first = seconds_of(learner, context, jax.random.fold_in(key, FITS), min(1, updates))
        fit, again = seconds_of(learner, context, jax.random.fold_in(key, FITS), updates)
        found, moved = drifts_at(env, learner, fit, y, u), slice(env.masses, None)
        error, spread, size = (np.linalg.norm(each[moved]) for each in (found.error, found.spread, found.size))
        cells += [f"{error / size:.3f}", f"{spread / error:.2f}", f"{again:.1f}", f"{first:.1f}"]
    known = "yes" if kinematics else "no"
    print(f"| {2 * env.masses} | {known} | {seconds:g} | {int(context.data.looks)} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=(2, 4, 6, 8, 10, 12, 16), help="coordinates, even")
    parser.add_argument("--seconds", type=float, nargs="+", default=(10.0, 40.0), help="of data, multiples of 5")
    parser.add_argument("--controls", type=int, choices=(1, 2), default=1)
    parser.add_argument("--kinematics", nargs="+", choices=("yes", "no"), default=("yes",))
    parser.add_argument("--updates", type=int, default=3000, help="of the networks")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    use_threads(1)
    shared = ("coordinates", "kinematics", "seconds", "looks")
    columns = [*shared, *(f"{model}: {what}" for model in ("basis", "networks") for what in MEASURED)]
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for size in options.sizes:
        for known in options.kinematics:
            for seconds in options.seconds:
                report(Chain.of(size, options.controls), known == "yes", seconds, options)


if __name__ == "__main__":
    main()
