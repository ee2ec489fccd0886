"""Give every agent trajectories that make no sense: each is refused by the name of its entry, or learned from rightly.

python tests/faults/table.py --only observes        (`make faults` runs all classes)
"""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from tally import Tally  # pyright: ignore[reportMissingImports]

from ctmle.agents import CTMLE, ENODE, Agent, SacTacos
from ctmle.data import Recorded, Trajectory
from ctmle.envs import Pendulum
from ctmle.options import apply

SPEC = Pendulum(horizon=4.0).spec
LOOKS = 9
POLICY = {"policy_hidden": (8,)}
AGENTS: dict[str, Agent] = {
    "ct-mle": apply(CTMLE(), {"waves": 8, **POLICY}),
    "enode": apply(ENODE(), {"ensemble": 2, "dynamics_hidden": (8,), **POLICY}),
    "sac-tacos": apply(SacTacos(), {"hidden": (8,), "replay_capacity": 64}),
}


def good() -> dict[str, Any]:
    """Return a trajectory that makes sense, by its entries."""
    times = np.linspace(0.0, 4.0, LOOKS, dtype=np.float32)
    controls = np.linspace(-1.5, 1.5, LOOKS, dtype=np.float32)[:, None]
    return {
        "times": times,
        "states": np.stack([np.cos(times), np.sin(times)], axis=1),
        "controls": controls,
        "rewards": np.full(LOOKS - 1, 0.1, np.float32),
        "drive.times": times.copy(),
        "drive.values": controls.copy(),
    }


def with_value(value: float) -> Callable[[np.ndarray], Any]:
    def change(array: np.ndarray) -> np.ndarray:
        changed = array.astype(float)
        changed[3] = value
        return changed

    return change


NONSENSE: dict[str, Callable[[np.ndarray], Any]] = {
    "NaN": with_value(np.nan),
    "inf": with_value(np.inf),
    "-inf": with_value(-np.inf),
    "beyond single precision": with_value(1e300),
    "one too few": lambda array: array[:-1],
    "one too many": lambda array: np.concatenate([array, array[-1:]]),
    "nothing in it": lambda array: array[:0],
    "another axis": lambda array: array[..., None],
    "a scalar": lambda array: np.float32(1.0),
    "transposed": lambda array: array.T if array.ndim > 1 else array[None],
    "words": lambda array: array.astype(str),
    "objects": lambda array: array.astype(object),
    "complex numbers": lambda array: array.astype(complex),
    "truth values": lambda array: array > 0,
    "a dictionary": lambda array: {"values": array},
    "ragged lists": lambda array: [[1.0], [1.0, 2.0]],
}
ENTRIES = tuple(good())
OWN: dict[str, tuple[str, Callable[[np.ndarray], Any]]] = {
    "times that go back": ("times", lambda times: times[::-1].copy()),
    "a time twice": ("times", lambda times: np.where(times == times[4], times[3], times)),
    "times that start late": ("times", lambda times: times + 0.5),
    "negative times": ("times", lambda times: times - 1.0),
    "times past the end": ("times", lambda times: 3 * times),
    "a control outside its bounds": ("controls", with_value(2.5)),
    "two coordinates too many": ("states", lambda states: np.concatenate([states, states], axis=1)),
    "a control too many": ("controls", lambda controls: np.concatenate([controls, controls], axis=1)),
    "a record that starts late": ("drive.times", lambda times: times + 0.5),
    "a recorded control outside its bounds": ("drive.values", with_value(-9.0)),
    "a missing column of states": ("states", lambda states: None),
    "a missing column of controls": ("controls", lambda controls: None),
    "missing times": ("times", lambda times: None),
}
SOUND: dict[str, Callable[[np.ndarray], Any]] = {
    "double precision": lambda array: array.astype(np.float64),
    "half precision": lambda array: array.astype(np.float16),
    "lists": lambda array: array.tolist(),
}


def made_of(entries: dict[str, Any]) -> Trajectory:
    drive = Recorded(entries["drive.times"], entries["drive.values"])
    return Trajectory(entries["times"], entries["states"], entries["controls"], drive, False, entries["rewards"])


def cases() -> Iterator[tuple[str, str, Any, bool]]:
    """List what is tried: its name, its entry, the trajectory, and whether it is to be refused."""
    changes = [(f"{entry}: {name}", entry, change) for entry in ENTRIES for name, change in NONSENSE.items()]
    changes += [(name, entry, change) for name, (entry, change) in OWN.items()]
    for name, entry, change in changes:
        yield name, entry, made_of({**good(), entry: change(good()[entry])}), True
    for name, change in SOUND.items():
        yield name, "", made_of({entry: change(array) for entry, array in good().items()}), False
    yield "a dictionary for a trajectory", "Trajectory", good(), True


def survives(agent: Agent, state: Any, entry: str, trajectory: Any, refused: bool) -> bool:
    """Tell whether a trajectory is refused by the name of its entry, or learned from as it is."""
    try:
        after = agent.observe(state, trajectory)
    except ValueError as error:
        return refused and entry in str(error)
    if refused or not isinstance(trajectory, Trajectory):
        return False
    if isinstance(agent, SacTacos):
        return agent.progress(after).looks == LOOKS
    kept = after.data.trajectory(0)
    pairs = zip(
        (kept.times, kept.states, kept.controls), (good()["times"], good()["states"], good()["controls"]), strict=True
    )
    return all(np.allclose(ours, theirs, atol=2e-3) for ours, theirs in pairs)


def attack() -> Tally:
    """Give all of it to every agent."""
    tally = Tally()
    for agent_name, agent in AGENTS.items():
        state = agent.init(SPEC, jax.random.key(0))
        for name, entry, trajectory, refused in cases():
            tally.add(survives(agent, state, entry, trajectory, refused), f"{agent_name}: {name}")
    return tally
