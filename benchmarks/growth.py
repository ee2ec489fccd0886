"""Whether episodes cost more as data grows, and how often each function is traced.

    python benchmarks/growth.py [--episodes 50]

Episodes of 10 s, with few policy updates each: what is left is the fit to all data. Seconds are those of fit and
updates alone. The last line is the same as JSON.
"""

import argparse
import json
import statistics
import time
from collections import Counter, defaultdict

import jax

from ctmle.lab.experiment import from_settings
from ctmle.lab.machine import use_threads
from ctmle.lab.run import Run

UPDATES = 20
WINDOW = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=50)
    episodes = parser.parse_args().episodes
    use_threads(None)
    traces: Counter[str] = Counter()

    def traced(event: str, duration_secs: float, **what: str | int) -> None:
        if event.endswith("jaxpr_trace_duration"):
            traces[str(what.get("fun_name"))] += 1

    jax.monitoring.register_event_duration_secs_listener(traced)
    few = {"policy_updates": UPDATES, "policy_rounds": 1, "chunk": UPDATES, "growth": 1.0, "trajectory_seconds": 10.0}
    run = Run(from_settings({"environment": "pendulum", "episodes": episodes, **few}))
    seconds: defaultdict[int, float] = defaultdict(float)
    state = run.init()
    while run.agent.progress(state).episode <= episodes:
        if run.agent.ready(state):
            state, policy, looks = run.agent.propose(state, run.schedule)
            state = run.agent.observe(state, run.act(state, policy, looks))
            continue
        started = time.perf_counter()
        episode = run.agent.progress(state).episode
        state = jax.block_until_ready(run.agent.advance(state, run.schedule))
        seconds[episode] += time.perf_counter() - started
    first = statistics.median(seconds[n] for n in range(2, 2 + WINDOW))
    last = statistics.median(seconds[n] for n in range(episodes - WINDOW + 1, episodes + 1))
    ours = {name: traces[name] for name in ("loop_updates", "_simulate", "paths_between", "_most_likely", "_posterior")}
    print(
        f"a fit and {UPDATES} updates: {first:.2f} s in episodes 2 to {1 + WINDOW},"
        f" {last:.2f} s in the last {WINDOW} of {episodes}: {last / first:.2f} times as long"
    )
    print("traced: " + ", ".join(f"{name} {count}" for name, count in ours.items()))
    print(json.dumps({"growth": last / first, "traces": ours}))


if __name__ == "__main__":
    main()
