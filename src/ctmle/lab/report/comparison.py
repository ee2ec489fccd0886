"""Runs compared: scores against episodes and against looks, averaged over seeds, as a table and as a picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import cycle

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table

from ctmle.lab.experiment import Evaluation
from ctmle.lab.report.pictures import COLOURS, draw_curve
from ctmle.lab.report.results import RunResult, Settings, grouped
from ctmle.lab.report.statistics import standard_error
from ctmle.options import flat
from ctmle.registry import ENVIRONMENTS
from ctmle.settings import plain, spelled

NO_DIFFERENCE = ("environment", "agent", "sigma", "preset", "seed", "out", "episodes", "test_every", "stop_at_success",
                 "checkpoint_every", "checkpoints_kept", "threads")  # fmt: skip
"""Settings by which runs of one agent do not count as different from each other."""


@dataclass(frozen=True)
class Curve:
    """One agent on one task: means over seeds, at the episodes that every seed was tested at."""

    agent: str
    seeds: tuple[int, ...]
    episodes: tuple[int, ...]
    looks: tuple[float, ...]
    score: tuple[float, ...]
    score_se: tuple[float, ...] | None
    """Standard error over seeds; none for a single seed."""
    succeeded: int
    """Number of seeds that succeeded."""
    episodes_to_success: float | None
    """Mean number of episodes until success, over the seeds that succeeded."""
    looks_to_success: float | None
    """Mean number of looks that the first successful policy was trained on, over the seeds that succeeded."""
    seconds_to_success: float | None
    """Mean seconds of experience that it was trained on."""


@dataclass(frozen=True)
class Panel:
    """One task: an environment at one noise level, and a curve for each agent."""

    environment: str
    sigma: float | None
    """Noise level; none for an environment without such a setting."""
    success_at: float
    warm_up: float
    curves: tuple[Curve, ...]

    @property
    def title(self) -> str:
        return self.environment if self.sigma is None else f"{self.environment}, sigma = {self.sigma:g}"


def compare(runs: Sequence[RunResult]) -> list[Panel]:
    """Make a panel for each environment and noise level. Raises ValueError for runs that cannot be compared."""
    known = ENVIRONMENTS.names
    tasks = grouped(runs, lambda settings: (settings["environment"], settings.get("sigma")))
    ordered = sorted(tasks, key=lambda task: (known.index(task[0]) if task[0] in known else len(known), task[1] or 0.0))
    return [_panel(*task, tasks[task]) for task in ordered]


@cache
def task_options(environment: str) -> tuple[str, ...]:
    """List the options that scores depend on besides the noise level: they must be equal for all runs of a panel.

    For an environment from outside ctmle, only its horizon is known; its other options appear in the names of curves.
    """
    own = flat(ENVIRONMENTS.load(environment)()) if environment in ENVIRONMENTS.names else {"horizon"}
    return (*(name for name in own if name != "sigma"), "step", *flat(Evaluation()))


def _panel(environment: str, sigma: float | None, runs: list[RunResult]) -> Panel:
    first = runs[0].settings
    for run in runs[1:]:
        for name in task_options(environment):
            here, there = first.get(name), run.settings.get(name)
            if here != there:
                raise ValueError(
                    f"{runs[0].name} and {run.name} have different tasks: {spelled(name)} is {here} and {there};"
                    " compare runs that differ in agent and seed only"
                )
    curves = tuple(_curve(name, group) for name, group in grouped(runs, lambda own: _name(own, runs)).items())
    return Panel(environment, sigma, first["success"], first["warm_up"], curves)


def _name(settings: Settings, runs: list[RunResult]) -> str:
    """Name a curve after its agent and the settings by which runs of the same agent differ."""
    own, agent = _of_agent(settings), settings["agent"]
    others = [_of_agent(run.settings) for run in runs if run.settings["agent"] == agent]
    odd = [name for name in own if any(name in other and other[name] != own[name] for other in others)]
    return ", ".join([agent, *(f"{name.replace('_', ' ')} {own[name]}" for name in odd)])


def _of_agent(settings: Settings) -> Settings:
    aside = (*NO_DIFFERENCE, *task_options(settings["environment"]))
    return {name: value for name, value in settings.items() if name not in aside}


def _curve(name: str, runs: list[RunResult]) -> Curve:
    by_seed = grouped(runs, lambda settings: settings["seed"])
    for seed, (one, *others) in by_seed.items():
        if others:
            raise ValueError(f"{one.name} and {others[0].name} are the same run, seed {seed}, twice: leave one out")
    episodes = sorted(set.intersection(*(set(run.episodes) for run in runs)))
    if not episodes:
        raise ValueError(f"the seeds of {name} have no tested episode in common: use the same --test-every")
    common = [np.isin(run.episodes, episodes) for run in runs]
    scores = np.array([np.array(run.scores)[here] for run, here in zip(runs, common, strict=True)])
    looks = np.array([np.array(run.looks)[here] for run, here in zip(runs, common, strict=True)])
    spread = standard_error(scores)
    wins = [run.first_success for run in runs if run.first_success is not None]
    spent = [run.looks_to_success for run in runs if run.looks_to_success is not None]
    lasted = [run.seconds_to_success for run in runs if run.seconds_to_success is not None]
    return Curve(
        agent=name,
        seeds=tuple(sorted(by_seed)),
        episodes=tuple(episodes),
        looks=tuple(looks.mean(axis=0).tolist()),
        score=tuple(scores.mean(axis=0).tolist()),
        score_se=None if spread is None else tuple(spread.tolist()),
        succeeded=len(wins),
        episodes_to_success=float(np.mean(wins)) if wins else None,
        looks_to_success=float(np.mean(spent)) if spent else None,
        seconds_to_success=float(np.mean(lasted)) if lasted else None,
    )


def comparison_table(panel: Panel) -> Table:
    """List the last score of each agent on one task (mean over seeds, standard error), and how soon seeds succeeded.

    Episodes until success, and the looks and seconds of experience that the first successful policy was trained on, are
    means over the seeds that succeeded.
    """
    table = Table(title=escape(plain(panel.title)), title_justify="left", box=SIMPLE)
    table.add_column("agent", overflow="fold", min_width=12)
    for name in ("episode", "looks", "score", "success", "episodes", "looks", "seconds"):
        table.add_column(name, justify="right", no_wrap=True)
    for curve in panel.curves:
        error = "" if curve.score_se is None else f" +- {curve.score_se[-1]:.3f}"
        score = f"{curve.score[-1]:.3f}{error}"
        table.add_row(
            escape(plain(curve.agent)),
            str(curve.episodes[-1]),
            f"{curve.looks[-1]:.0f}",
            f"[green]{score}[/green]" if curve.score[-1] >= panel.success_at else score,
            f"{curve.succeeded} of {len(curve.seeds)}",
            "-" if curve.episodes_to_success is None else f"{curve.episodes_to_success:.1f}",
            "-" if curve.looks_to_success is None else f"{curve.looks_to_success:.0f}",
            "-" if curve.seconds_to_success is None else f"{curve.seconds_to_success:.1f}",
        )
    return table


def plot_comparison(panels: Sequence[Panel]) -> Figure:
    """Draw a column for each task: the score against episodes above, against looks below, with standard errors."""
    agents = list(dict.fromkeys(curve.agent for panel in panels for curve in panel.curves))
    colours = dict(zip(agents, cycle(COLOURS), strict=False))
    size = (max(4.6 * len(panels), 6.0), 7.0)
    figure, grid = plt.subplots(2, len(panels), figsize=size, layout="constrained", squeeze=False)
    for column, panel in enumerate(panels):
        _draw(grid[0, column], panel, "episodes", colours)
        _draw(grid[1, column], panel, "looks", colours)
        grid[0, column].set_title(panel.title)
        grid[0, column].xaxis.set_major_locator(MaxNLocator(integer=True))
    for axes in grid[:, 0]:
        axes.set_ylabel(f"mean reward after {panels[-1].warm_up:g} s")
    handles = {label: line for axes in grid.flat for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    columns = min(len(handles), 1 + len(panels))
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=columns, fontsize="small")
    return figure


def _draw(axes: Axes, panel: Panel, against: str, colours: dict[str, str]) -> None:
    for curve in panel.curves:
        x, score = np.asarray(getattr(curve, against), float), np.asarray(curve.score)
        error = None if curve.score_se is None else np.asarray(curve.score_se)
        draw_curve(axes, x, score, error, colour=colours[curve.agent], label=curve.agent)
    if panel.success_at is not None:
        axes.axhline(panel.success_at, color="grey", linewidth=1, linestyle="--", label="success")
    axes.set_xlabel("episode" if against == "episodes" else "looks spent")
    if max(max(curve.score) for curve in panel.curves) <= 1.0:
        axes.set_ylim(min(-0.05, *(min(curve.score) for curve in panel.curves)), 1.02)
    axes.grid(alpha=0.3)
