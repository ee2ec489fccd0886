"""Whether runs know what they do not know: the noise that they learned, and the spread of their models over its error.

    python benchmarks/calibration.py runs/learning/runs/* [--trajectories 5]

For finished runs of agents that fit a basis or an ensemble. `diffusion` is the learned diffusion over the true one per
coordinate, after the first and after the last episode. `spread over error` is measured along the final policy, at all
points of a few test trajectories on the true system: the standard deviation of the drift over posterior samples (of an
ensemble: over its members), over the error of the posterior mean (of the mean of the members), both as root mean
squares, per coordinate whose drift is learned, in physical coordinates. Above 1 the models are more modest than they
have to be, below 1 too sure.

Summaries per system have the share of runs whose diffusion is within 25% of the truth in every coordinate, and medians
over runs of the spread over the error, which should be between 0.5 and 3. Posterior samples are those of the newest
checkpoint: runs whose checkpoints were dropped have the diffusion only.
"""

import argparse
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from drifts import drifts_at

from ctmle.agents import ModelBasedAgent
from ctmle.lab.machine import use_threads
from ctmle.lab.run import TEST, Run
from ctmle.lab.storage.run_folder import RunFolder
from ctmle.models import KnownModel
from ctmle.schedules import Equidistant

WITHIN = 0.25
"""Share of the true diffusion by which a learned one may be off."""
BAR = (0.5, 3.0)
"""Spread over error that counts as calibrated."""

Ratios = dict[str, float]
"""By the name of a coordinate."""


@dataclass(frozen=True)
class Calibration:
    """Ratios of one run, each of them empty if it cannot be measured."""

    first: Ratios
    last: Ratios
    spread: Ratios

    def line(self) -> str:
        return (
            f"diffusion first {_shown(self.first)}, last {_shown(self.last)}; spread over error {_shown(self.spread)}"
        )


def calibration_of(folder: RunFolder, trajectories: int) -> Calibration:
    run = Run(folder.read_experiment())
    records = [record for record in folder.read_metrics() if "score" in record]
    first, last = (_diffusion(run, records[end]) if records else {} for end in (0, -1))
    return Calibration(first, last, _spread(run, folder, trajectories) if folder.checkpoints else {})


def _diffusion(run: Run, record: dict[str, Any]) -> Ratios:
    """Return the learned diffusion over the true one; none of coordinates without noise."""
    found = (record.get(f"diffusion_{kind}", ()) for kind in ("learned", "true"))
    pairs = zip(_names(run), *found, strict=False)
    return {name: learned / true for name, learned, true in pairs if true > 0}


def _spread(run: Run, folder: RunFolder, trajectories: int) -> Ratios:
    """Return the spread of the models over their error, along the final policy."""
    agent, spec = run.agent, run.spec
    if not isinstance(agent, ModelBasedAgent) or isinstance(agent.learner, KnownModel):
        return {}
    if spec.observation.kind != "angles":
        return {}
    state = run.restore(folder.read_checkpoint(run.fits))
    policy, episode = run.output(state, "final")
    key, seconds = run.stream(TEST, episode), run.evaluation.test_seconds or spec.horizon
    looks = Equidistant(run.evaluation.test_gap, random_looks=False).looks(key, seconds)
    seen = run.plant.run_many(policy, looks, jax.random.split(key, trajectories))
    found = drifts_at(run.simulated.env, agent.learner, state.trained["learner"], seen.states, seen.controls)
    return {_names(run)[i]: float(found.spread[i] / found.error[i]) for i in found.learned}


def _names(run: Run) -> tuple[str, ...]:
    """Name the coordinates that the agent sees; by their numbers if they are not those of the state."""
    physical = run.spec.observation.kind == "angles"
    return run.simulated.env.state_names if physical else tuple(map(str, range(run.spec.observation.size)))


def _shown(ratios: Ratios) -> str:
    return ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items()) or "-"


def summary(runs: list[Calibration]) -> str:
    within = []
    for when in ("first", "last"):
        noisy = [ratios for run in runs if (ratios := getattr(run, when))]
        close = sum(all(abs(ratio - 1) <= WITHIN for ratio in ratios.values()) for ratios in noisy)
        within.append(f"{close} of {len(noisy)} after the {when} episode")
    spreads = [run.spread for run in runs if run.spread]
    medians = {name: float(np.median([each[name] for each in spreads])) for name in (spreads or [{}])[0]}
    good = sum(BAR[0] <= ratio <= BAR[1] for ratio in medians.values())
    return (
        f"diffusion within {WITHIN:.0%} in every coordinate: {', '.join(within)}; spread over error, median of"
        f" {len(spreads)} runs: {_shown(medians)} ({good} of {len(medians)} between {BAR[0]:g} and {BAR[1]:g})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="run folders of agents that fit a model")
    parser.add_argument("--trajectories", type=int, default=5, help="test trajectories of each final policy")
    arguments = parser.parse_args()
    use_threads(1)
    systems: defaultdict[str, list[Calibration]] = defaultdict(list)
    for path in arguments.runs:
        folder = RunFolder.open(path)
        settings, found = folder.read_settings(), calibration_of(folder, arguments.trajectories)
        print(f"{path.name}: {found.line()}", flush=True)
        noise = f", sigma {settings['sigma']:g}" if "sigma" in settings else ""
        systems[f"{settings['environment']}{noise}, {settings.get('model', settings['agent'])}"].append(found)
    for name, runs in systems.items():
        print(f"{name} ({len(runs)} runs): {summary(runs)}")


if __name__ == "__main__":
    main()
