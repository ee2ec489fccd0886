"""How many updates the default planner needs in the true SDE until its policy succeeds: nothing has to be learned.

    python benchmarks/planner.py [--systems cartpole-swingup] [--seeds 5] [--updates 1500] [--every 25] [--sigma 2]

The oracle's composition with the planner of a default run: rounds of `policy_updates` updates, each with rates that
decay anew, and further episodes if the planner has had enough before its policy is good enough. Every so many updates
the newest policy, not the one that the guard keeps, is tested on the true system; a score of `success` ends the run.
`seconds` are those of updates, and of what begins an episode and ends a round; compilation and tests are left out.

The last lines count, per system, the seeds that succeed within the bar: 1500 updates on cart-pole swing-up and Acrobot,
150 on Pendulum and CartPole.
"""

import argparse
import statistics
import time
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ctmle.agents import ModelBasedAgent, Oracle
from ctmle.lab.experiment import start
from ctmle.lab.machine import use_compilation_cache, use_threads
from ctmle.lab.run import Run
from ctmle.planning import ActorCritic, plain

BARS = {"cartpole-swingup": 1500, "acrobot": 1500, "pendulum": 150, "cartpole": 150}
"""Updates within which a planner should succeed."""


@dataclass(frozen=True)
class Outcome:
    """Updates until the first success; none if there was no success."""

    updates: int | None
    seconds: float
    scores: tuple[float, ...]

    def line(self) -> str:
        best = f"best score {max(self.scores):.3f}, last {self.scores[-1]:.3f}"
        found = "no success" if self.updates is None else f"{self.updates} updates"
        return f"{found}, {self.seconds:.1f} s; {best}"


class Planning:
    """The oracle on one system, advanced a few updates at a time."""

    def __init__(self, system: str, seed: int, options: argparse.Namespace):
        asked = {
            "sigma": options.sigma,
            "seed": seed,
            "chunk": options.every,
            "test_trajectories": options.trajectories,
        }
        experiment = start(system).changed(asked)
        agent = experiment.agent
        assert isinstance(agent, ModelBasedAgent)  # the default agent is one
        assert isinstance(agent.improver, ActorCritic)
        oracle = Oracle(
            Run(experiment).simulated.env, agent.improver, exploration=agent.exploration, chunk=options.every
        )
        self.run, self.oracle, self.improver = Run(replace(experiment, agent=oracle)), oracle, agent.improver

    def acted(self, state: Any) -> Any:
        """Let the agent gather data until it has something to plan for."""
        while self.oracle.ready(state):
            state, policy, looks = self.oracle.propose(state, self.run.schedule)
            state = self.oracle.observe(state, self.run.act(state, policy, looks))
        return state

    def advanced(self, state: Any) -> tuple[Any, int]:
        """Run the next updates of the round, at most `every`; return their number."""
        count = min(self.oracle.chunk, self.improver.updates - int(state.step))
        return jax.block_until_ready(self.oracle.advance(state, self.run.schedule)), count

    def score(self, state: Any, updates: int) -> float:
        """Test the newest policy."""
        return self.run.score(plain(self.run.spec, state.trained["improver"].feedback), updates).mean

    def compile(self) -> None:
        """Do everything once: begin an episode, update, end a round, test."""
        state, _ = self.advanced(self.acted(self.run.init()))
        last = jnp.asarray(self.improver.updates - 1, jnp.int32)
        self.score(self.advanced(eqx.tree_at(lambda s: s.step, state, last))[0], 0)

    def outcome(self, most: int) -> Outcome:
        state, done, seconds, scores = self.run.init(), 0, 0.0, []
        while done < most:
            state = self.acted(state)
            started = time.perf_counter()
            state, count = self.advanced(state)
            seconds, done = seconds + time.perf_counter() - started, done + count
            scores.append(self.score(state, done))
            if scores[-1] >= self.run.evaluation.success:
                return Outcome(done, seconds, tuple(scores))
        return Outcome(None, seconds, tuple(scores))


def summary(system: str, outcomes: list[Outcome]) -> str:
    bar, found = BARS.get(system), [each.updates for each in outcomes if each.updates is not None]
    median = "-" if not found else f"{statistics.median(found):g} updates, all {' '.join(map(str, sorted(found)))}"
    within = "" if bar is None else f"; within {bar} updates {sum(n <= bar for n in found)} of {len(outcomes)}"
    return f"{system}: successes {len(found)} of {len(outcomes)}{within}; median of successes {median}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", nargs="+", default=list(BARS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=1500, help="after which a run without success ends")
    parser.add_argument("--every", type=int, default=25, help="updates from one test to the next")
    parser.add_argument("--sigma", type=float, default=2.0)
    parser.add_argument("--trajectories", type=int, default=40, help="of each test")
    options = parser.parse_args()
    use_threads(1)
    use_compilation_cache()
    outcomes: dict[str, list[Outcome]] = {system: [] for system in options.systems}
    for system, its in outcomes.items():
        Planning(system, 0, options).compile()
        for seed in range(options.seeds):
            its.append(Planning(system, seed, options).outcome(options.updates))
            print(f"{system} seed {seed}: {its[-1].line()}", flush=True)
    for system, its in outcomes.items():
        print(summary(system, its))


if __name__ == "__main__":
    main()
