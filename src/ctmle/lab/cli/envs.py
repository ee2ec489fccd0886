"""`ctmle envs`."""

from typing import Any

from rich.console import Console

from ctmle.config import EnvsCommand
from ctmle.envs.registry import ENVIRONMENTS, make
from ctmle.lab.cli.dispatch import run

REWARDS = {
    "pendulum": "upright and still: exp(-((1-cos)^2 + sin^2) - 0.01 w^2) - 0.01 u^2",
    "cartpole": "tip upright at the centre: exp(-distance^2 - 0.01 (v^2+w^2)) - 0.01 u^2",
    "cartpole-swingup": "the same, from hanging",
    "acrobot": "tip straight up: exp(-distance^2 - 0.01 (w1^2+w2^2)) - 1e-4 u'u",
    "linear-quadratic": "1 - x^2 - 0.1 u^2 (the optimum is known)",
}


@run.register
def _envs(command: EnvsCommand) -> None:
    console = Console(highlight=False)
    for name in ENVIRONMENTS:
        env: Any = make(name)
        bounds = zip(env.control_low, env.control_high, strict=True)
        controls = ", ".join(f"{low:g} to {high:g}" for low, high in bounds)
        console.print(f"[bold]{name}[/bold]: {(type(env).__doc__ or '').splitlines()[0]}")
        console.print(f"  state    {len(env.state_names)}: {', '.join(env.state_names)}")
        console.print(f"  control  {len(env.control_low)}: {controls}")
        console.print(f"  horizon  {env.horizon:g} s")
        console.print(f"  noise    diffusion sigma * {env.unit:g} on every coordinate ({2 * env.unit:g} at sigma 2)")
        console.print(f"  reward   per second, at most 1: {REWARDS[name]}")
