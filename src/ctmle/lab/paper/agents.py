"""CT-MLE compared with ENODE and SAC-TaCoS: the paper's figure "comp" and its claims."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from ctmle.lab.experiment import Experiment
from ctmle.lab.paper import base
from ctmle.lab.paper.base import PaperExperiment
from ctmle.lab.paper.outcomes import (
    by_system,
    final_scores,
    grouped,
    learning_curves,
    mean_episodes,
    mean_final_score,
    successes,
)
from ctmle.lab.paper.request import PaperRequest
from ctmle.lab.paper.verdict import Verdict, above, below
from ctmle.lab.report.comparison import compare, plot_comparison
from ctmle.lab.report.run_result import RunResult
from ctmle.lab.report.statistics import Samples, bootstrap, interquartile_mean, probability_of_improvement
from ctmle.lab.report.tables import Listing

OURS, ENODE, TACOS = "ct-mle", "enode", "sac-tacos"
BASELINES = (ENODE, TACOS)
NO_PROGRESS = 0.1
"""Our reading of "no meaningful reward improvement": less than this, with rewards of at most 1."""
HARDEST = "acrobot"


class ThreeAgents(PaperExperiment):
    """Three agents on three systems."""

    definitions = (
        "A score is the mean reward after the warm-up over the test trajectories of an episode; the final score is"
        " that of the last episode. Leads are differences of interquartile means over seeds (of means, with fewer"
        " than four seeds); over all systems, the scores of all of them are pooled and resampled system by system."
        " The chance is the probability of improvement: how often a run of CT-MLE ends above one of the baseline,"
        " ties counting half. Episodes to success is the first episode with a score of at least 0.9; a run that never"
        " succeeds counts with one more than it had."
    )

    def runs(self, request: PaperRequest) -> list[Experiment]:
        return [
            run
            for environment in base.environments(request)
            for agent in (OURS, *BASELINES)
            for run in base.seeded(
                request,
                base.start(request, environment, agent, base.EPISODES[environment]),
                paper=base.PAPER_SEEDS[environment],
                small=3,
            )
        ]

    def figure(self, results: list[RunResult]) -> Figure:
        return plot_comparison(compare(results))

    def measured(self, results: list[RunResult]) -> Listing:
        columns = ("system", "agent", "seeds", "final score", "episodes to success", "succeeded")
        found = []
        for (environment, agent), runs in grouped(results, lambda s: (s["environment"], s["agent"])).items():
            score = mean_final_score(runs)
            found.append((environment, agent, str(len(runs)), str(score), str(mean_episodes(runs)), successes(runs)))
        return Listing(
            "final scores (interquartile mean) and episodes to success (mean), 95% intervals", columns, found
        )

    def verdicts(self, results: list[RunResult]) -> list[Verdict]:
        tasks = [
            _Task(environment, runs[0].settings["success"], grouped(runs, lambda s: s["agent"]))
            for environment, runs in by_system(results).items()
        ]
        found = [_leads(task.name, [task], baseline) for baseline in BASELINES for task in tasks]
        if len(tasks) > 1:
            found += [_leads("all systems", tasks, baseline) for baseline in BASELINES]
        found += [_faster_at_first(task) for task in tasks]
        found += [_varies_less(task) for task in tasks]
        found += [_fails(task) for task in tasks]
        found += [_makes_no_progress(task) for task in tasks if task.name != "pendulum"]
        if len(tasks) > 1 and any(task.name == HARDEST for task in tasks):
            found.append(_leads_most_on_hardest(tasks))
        return found


@dataclass(frozen=True)
class _Task:
    name: str
    success_at: float
    runs: dict[str, list[RunResult]]

    def final(self, agent: str) -> Samples:
        return final_scores(self.runs.get(agent, []))

    def curves(self, agent: str) -> Samples:
        return learning_curves(self.runs.get(agent, []))


def _leads(where: str, tasks: Sequence[_Task], baseline: str) -> Verdict:
    groups = [task.final(agent) for agent in (OURS, baseline) for task in tasks]
    lead = bootstrap(groups, _pooled_lead)
    chance = bootstrap(groups, _mean_chance, bounds=(0.0, 1.0))
    found = f"final score higher by {lead}; chance of improvement {chance}"
    return Verdict(f"{where}: ct-mle ends above {baseline}", found, above(lead, 0.0), lead.samples)


def _pooled_lead(groups: Sequence[Samples]) -> float:
    """Subtract the second half of the groups from the first; within each half, one group for each system."""
    half = len(groups) // 2
    return interquartile_mean(np.concatenate(groups[:half])) - interquartile_mean(np.concatenate(groups[half:]))


def _mean_chance(groups: Sequence[Samples]) -> float:
    half = len(groups) // 2
    chances = map(probability_of_improvement, groups[:half], groups[half:])
    return float(np.mean(list(chances)))


def _faster_at_first(task: _Task) -> Verdict:
    groups = [task.curves(agent)[:, :1].ravel() for agent in (TACOS, OURS)]
    lead = bootstrap(groups, _pooled_lead)
    claim = f"{task.name}: {TACOS} learns faster at first"
    found = f"its first test scores higher than {OURS}'s by {lead}"
    return Verdict(claim, found, above(lead, 0.0), lead.samples)


def _varies_less(task: _Task) -> Verdict:
    difference = bootstrap([task.curves(agent) for agent in (TACOS, OURS)], lambda g: _spread(g[0]) - _spread(g[1]))
    claim = f"{task.name}: {TACOS} varies less"
    found = f"its standard deviation over seeds, mean over episodes, is larger than {OURS}'s by {difference}"
    return Verdict(claim, found, below(difference, 0.0), difference.samples)


def _spread(curves: Samples) -> float:
    return float(curves.std(axis=0, ddof=1).mean()) if len(curves) > 1 else float("nan")


def _fails(task: _Task) -> Verdict:
    score = mean_final_score(task.runs.get(ENODE, []))
    claim = f"{task.name}: {ENODE} performs poorly (fails the task)"
    found = f"final score {score}; success is {task.success_at:g}"
    return Verdict(claim, found, below(score, task.success_at), score.samples)


def _makes_no_progress(task: _Task) -> Verdict:
    gain = bootstrap([task.curves(ENODE)], lambda groups: interquartile_mean(groups[0][:, -1] - groups[0][:, 0]))
    claim = f"{task.name}: {ENODE} achieves no meaningful improvement (less than {NO_PROGRESS:g})"
    return Verdict(claim, f"from first to last test {gain}", below(gain, NO_PROGRESS), gain.samples)


def _leads_most_on_hardest(tasks: Sequence[_Task]) -> Verdict:
    """Compare the lead over the better baseline on the hardest system with the largest such lead on another."""
    ordered = sorted(tasks, key=lambda task: task.name != HARDEST)
    groups = [task.final(agent) for task in ordered for agent in (OURS, *BASELINES)]

    def excess(groups: Sequence[Samples]) -> float:
        means = np.array([interquartile_mean(group) for group in groups]).reshape(len(ordered), -1)
        leads = means[:, 0] - means[:, 1:].max(axis=1)
        return float(leads[0] - leads[1:].max())

    found = bootstrap(groups, excess)
    claim = f"the lead over the baselines is largest on {HARDEST}"
    said = f"lead over the better baseline there, less the largest elsewhere: {found}"
    return Verdict(claim, said, above(found, 0.0), found.samples)
