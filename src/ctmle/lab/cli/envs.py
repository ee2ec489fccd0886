"""`ctmle envs`."""

from dataclasses import dataclass

from ctmle.lab.cli.parse import parse
from ctmle.registry import ENVIRONMENTS
from ctmle.settings import Part


@dataclass(frozen=True)
class EnvsCommand(Part):
    """List the environments: dimensions, controls, horizon, noise and reward."""


def main(arguments: list[str]) -> None:
    """List every registered environment."""
    parse(EnvsCommand, arguments, "ctmle envs")
    from rich.console import Console

    from ctmle.options import walk

    console = Console(highlight=False)
    for name in ENVIRONMENTS.names:
        env = ENVIRONMENTS.load(name)()
        bounds = zip(env.control_low, env.control_high, strict=True)
        settings = ", ".join(f"{option.name} {option.value}" for option in walk(env))
        console.print(f"[bold]{name}[/bold]: {(type(env).__doc__ or '').splitlines()[0]}")
        console.print(f"  state    {len(env.state_names)}: {', '.join(env.state_names)}")
        console.print(f"  control  {len(env.control_low)}: {', '.join(f'{low:g} to {high:g}' for low, high in bounds)}")
        console.print(f"  reward   per second: {(type(env).reward.__doc__ or '').splitlines()[0]}")
        console.print(f"  settings {settings}")
