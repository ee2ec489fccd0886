"""Whether systems whose best state is not a rest suffer from imagined trajectories that start near the best rest.

    python benchmarks/rests.py [--systems rotor circle] [--seeds 3] [--episodes 3]

The rotor has to keep spinning; the tracker has to follow a point on a circle, whose angle is part of the state. Each is
learned with default settings, and without rest starts, whose share box starts have then. Each line has the scores by
seconds of experience. (Without rest starts nothing is known of the best rest, so all rounds of updates are done.)
"""

import argparse
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from ctmle.envs import NoisyEnv
from ctmle.envs.base import Control, Scalar, State
from ctmle.lab.experiment import start
from ctmle.lab.machine import use_compilation_cache, use_threads
from ctmle.lab.run import Run
from ctmle.settings import Positive


class Rotor(NoisyEnv):
    """A wheel with an unbalance that has to keep spinning:  w' = -0.3 w + 2 sin(theta) + 2 u,  abs(u) <= 2."""

    kinematics = ((0, 1),)
    tuned = {"": {"episodes": 4}, "ct-mle default": {"trajectory_seconds": 5.0}}  # noqa: RUF012

    state_names: tuple[str, ...] = eqx.field(static=True, default=("theta", "w"))
    angles: tuple[int, ...] = eqx.field(static=True, default=(0,))
    control_low: tuple[float, ...] = eqx.field(static=True, default=(-2.0,))
    control_high: tuple[float, ...] = eqx.field(static=True, default=(2.0,))
    speed: Positive = eqx.field(static=True, default=3.0)
    """Angular velocity with the best reward."""

    def drift(self, x: State, u: Control) -> State:
        theta, w = x
        return jnp.stack([w, -0.3 * w + 2.0 * jnp.sin(theta) + 2.0 * u[0]])

    def reward(self, x: State, u: Control) -> Scalar:
        """exp(-(w - speed)^2) - 0.01 u^2, at most 1."""
        return jnp.exp(-((x[1] - self.speed) ** 2)) - 0.01 * u[0] ** 2

    def reset(self, key: PRNGKeyArray) -> State:
        return jnp.zeros(2)


class Circle(NoisyEnv):
    """Two coordinates that have to follow a point on the unit circle, one turn in 2 pi seconds."""

    tuned = {"": {"episodes": 4}, "ct-mle default": {"trajectory_seconds": 5.0}}  # noqa: RUF012

    state_names: tuple[str, ...] = eqx.field(static=True, default=("phase", "x", "y"))
    angles: tuple[int, ...] = eqx.field(static=True, default=(0,))
    control_low: tuple[float, ...] = eqx.field(static=True, default=(-3.0, -3.0))
    control_high: tuple[float, ...] = eqx.field(static=True, default=(3.0, 3.0))
    unit: Positive = eqx.field(static=True, default=0.05)

    def drift(self, x: State, u: Control) -> State:
        return jnp.stack([jnp.ones_like(x[0]), -x[1] + u[0], -x[2] + u[1]])

    def reward(self, x: State, u: Control) -> Scalar:
        """exp(-4 distance^2) - 0.01 |u|^2, at most 1."""
        phase, *place = x
        distance = (place[0] - jnp.cos(phase)) ** 2 + (place[1] - jnp.sin(phase)) ** 2
        return jnp.exp(-4.0 * distance) - 0.01 * jnp.sum(u**2)

    def reset(self, key: PRNGKeyArray) -> State:
        return jnp.zeros(3)


SYSTEMS = {"rotor": "Rotor", "circle": "Circle"}
STARTS = {"default": {}, "no rest starts": {"rest_starts": 0.0, "box_starts": 0.5}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", nargs="+", choices=list(SYSTEMS), default=list(SYSTEMS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--episodes", type=int, default=3)
    parser.add_argument("--speed", type=float, default=3.0, help="of the rotor")
    options = parser.parse_args()
    use_threads(1)
    use_compilation_cache()
    for system in options.systems:
        for name, starts in STARTS.items():
            for seed in range(options.seeds):
                asked = {"episodes": options.episodes, "seed": seed, **starts}
                own = {"speed": options.speed} if system == "rotor" else {}
                run = Run(start(f"{Path(__file__)}:{SYSTEMS[system]}").changed({**asked, **own}))
                records = [record for _, record in run.episodes(run.init())]
                scores = (f"{record['score']:.3f} at {record['experience_seconds']:g} s" for record in records)
                print(f"{system}, {name}, seed {seed}: {', '.join(scores)}", flush=True)


if __name__ == "__main__":
    main()
