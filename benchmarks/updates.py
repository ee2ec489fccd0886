"""One dynamics update and one policy update at the paper's sizes, beside this machine's own matmul peak.

    python benchmarks/updates.py [--preset default|paper]

Floating-point operations are those of the matrix products alone, counted by formula; the peak is the best rate of the
same batched product by itself, measured in the same run. Ratios are what to look at: the machine may be busy.
"""

import argparse
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from ctmle.agents import CTMLE, Phase
from ctmle.config import preset
from ctmle.experiments import Run

UPDATES = 20


def network_flops(sizes: Sequence[int]) -> int:
    """Of one evaluation of a network at one point."""
    return sum(2 * a * b for a, b in itertools.pairwise(sizes))


def best_seconds(call: Callable[[], Any], repeats: int) -> float:
    jax.block_until_ready(call())
    best = float("inf")
    for _ in range(repeats):
        started = time.perf_counter()
        jax.block_until_ready(call())
        best = min(best, time.perf_counter() - started)
    return best


def peak(members: int, rows: int, width: int) -> float:
    """GFLOP/s of the product of hidden layers alone, at this shape."""
    x = jax.random.normal(jax.random.key(0), (members, rows, width))
    w = jax.random.normal(jax.random.key(1), (members, width, width))
    product = jax.jit(lambda x, w: jnp.einsum("ebi,eio->ebo", x, w))
    return 2 * members * rows * width**2 / best_seconds(lambda: product(x, w), 50) / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="default", choices=["default", "paper"])
    config = preset("pendulum", parser.parse_args().preset)
    learner = replace(config.learner, chunk=UPDATES, dynamics_updates=10**6, policy_updates=10**6)
    run = Run(replace(config, learner=learner))
    agent, spec = CTMLE(learner), run.spec
    state = agent.init(spec, jax.random.key(0))
    while agent.episode(state) == 0:
        state, policy, looks = agent.propose(state, run.schedule)
        state = agent.observe(state, run.act(state, policy, looks))
    planning = replace(state, phase=jnp.asarray(Phase.POLICY))

    features, size, controls = spec.observation.feature_size, spec.observation.size, spec.control_size
    drift = network_flops((features + controls, *learner.dynamics_hidden, size))
    feedback = network_flops((features, *learner.policy_hidden, controls))
    critic = network_flops((features, *learner.policy_hidden, 1))

    samples = learner.dynamics_batch * learner.dynamics_length * (2 if config.random_looks else 1)
    closed_loop = feedback if learner.control == "closed-loop" else 0
    probes = 2 * size if learner.covariance == "moments" else 0
    segments = max(1, round(config.gap / learner.longest_step))
    # Gradients by weights and by inputs cost one evaluation each; the recorded policy needs only those by inputs.
    evaluations = 3 if learner.solver == "rk3" else 4
    per_sample = segments * (evaluations * (3 * drift + 2 * closed_loop) + probes * (drift + closed_loop))
    dynamics_flops = learner.ensemble * samples * per_sample

    steps = round(learner.policy_horizon / learner.policy_step)
    imagined = learner.particles * (2 * steps * (2 * drift + 3 * feedback) + (steps + 1) * 3 * feedback)
    policy_flops = imagined + learner.critic_steps * learner.critic_batch * 3 * critic

    width = learner.dynamics_hidden[0]
    cases = (
        ("dynamics update", state, dynamics_flops, samples),
        ("policy update", planning, policy_flops, learner.particles // learner.ensemble),
    )
    print(f"preset {config.preset}: ensemble {learner.ensemble}, drift {learner.dynamics_hidden}, {jax.devices()[0]}")
    for name, start, flops, rows in cases:
        if learner.solver == "dopri5" and name == "dynamics update":
            print("(the adaptive solver chooses its own number of steps: its GFLOP/s assume one step per gap)")
        seconds = best_seconds(lambda start=start: agent.advance(start, run.schedule), 3) / UPDATES
        rate, best = flops / seconds / 1e9, peak(learner.ensemble, rows, width)
        print(
            f"{name}: {1e3 * seconds:.1f} ms, {flops / 1e9:.2f} GFLOP, {rate:.1f} GFLOP/s;"
            f" matmul [{learner.ensemble} x {rows} x {width}] alone {best:.1f} GFLOP/s; share {rate / best:.0%}"
        )


if __name__ == "__main__":
    main()
