"""CT-MLE compared with ENODE and SAC-TaCoS on three systems: the paper's figure "comp" and its claims."""

from collections.abc import Sequence

import numpy as np

from ctmle.lab.experiment import Experiment
from ctmle.lab.paper import PaperRequest, base
from ctmle.lab.paper.base import PaperExperiment, Verdict, above, below, mean_final_score
from ctmle.lab.report.comparison import compare, plot_comparison
from ctmle.lab.report.results import RunResult, by_system, final_scores, grouped, learning_curves
from ctmle.lab.report.statistics import Samples, bootstrap, interquartile_mean, probability_of_improvement

OURS, ENODE, TACOS = "ct-mle", "enode", "sac-tacos"
BASELINES = (ENODE, TACOS)
NO_PROGRESS = 0.1
"""Our reading of "no meaningful reward improvement": less than this, with rewards of at most 1."""
HARDEST = "acrobot"

RunsByAgent = dict[str, list[RunResult]]
"""Runs on one system: a list for every agent, empty if it has none."""

DEFINITIONS = (
    "A score is the mean reward after the warm-up over the test trajectories of an episode; the final score is"
    " that of the last episode. Leads are differences of interquartile means over seeds (of means, with fewer"
    " than four seeds); over all systems, the scores of all of them are pooled and resampled system by system."
    " The chance is the probability of improvement: how often a run of CT-MLE ends above one of the baseline,"
    " ties counting half. Episodes to success is the first episode with a score of at least 0.9; a run that never"
    " succeeds counts with one more than it had."
)


def _runs(request: PaperRequest) -> list[Experiment]:
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


def _verdicts(results: list[RunResult]) -> list[Verdict]:
    nobody: RunsByAgent = {agent: [] for agent in (OURS, *BASELINES)}
    systems = by_system(results)
    tasks = {name: nobody | grouped(runs, lambda own: own["agent"]) for name, runs in systems.items()}
    found = [_leads(name, [task], baseline) for baseline in BASELINES for name, task in tasks.items()]
    if len(tasks) > 1:
        found += [_leads("all systems", list(tasks.values()), baseline) for baseline in BASELINES]
    found += [_faster_at_first(name, task) for name, task in tasks.items()]
    found += [_varies_less(name, task) for name, task in tasks.items()]
    found += [_fails(name, tasks[name], runs[0].settings["success"]) for name, runs in systems.items()]
    found += [_makes_no_progress(name, task) for name, task in tasks.items() if name != "pendulum"]
    if len(tasks) > 1 and HARDEST in tasks:
        found.append(_leads_most_on_hardest(tasks))
    return found


def _leads(where: str, tasks: Sequence[RunsByAgent], baseline: str) -> Verdict:
    groups = [final_scores(task[agent]) for agent in (OURS, baseline) for task in tasks]
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


def _faster_at_first(where: str, task: RunsByAgent) -> Verdict:
    groups = [learning_curves(task[agent])[:, :1].ravel() for agent in (TACOS, OURS)]
    lead = bootstrap(groups, _pooled_lead)
    claim = f"{where}: {TACOS} learns faster at first"
    found = f"its first test scores higher than {OURS}'s by {lead}"
    return Verdict(claim, found, above(lead, 0.0), lead.samples)


def _varies_less(where: str, task: RunsByAgent) -> Verdict:
    curves = [learning_curves(task[agent]) for agent in (TACOS, OURS)]
    difference = bootstrap(curves, lambda groups: _spread(groups[0]) - _spread(groups[1]))
    claim = f"{where}: {TACOS} varies less"
    found = f"its standard deviation over seeds, mean over episodes, is larger than {OURS}'s by {difference}"
    return Verdict(claim, found, below(difference, 0.0), difference.samples)


def _spread(curves: Samples) -> float:
    return float(curves.std(axis=0, ddof=1).mean()) if len(curves) > 1 else float("nan")


def _fails(where: str, task: RunsByAgent, success: float) -> Verdict:
    score = mean_final_score(task[ENODE])
    claim = f"{where}: {ENODE} performs poorly (fails the task)"
    found = f"final score {score}; success is {success:g}"
    return Verdict(claim, found, below(score, success), score.samples)


def _makes_no_progress(where: str, task: RunsByAgent) -> Verdict:
    curves = learning_curves(task[ENODE])
    gain = bootstrap([curves], lambda groups: interquartile_mean(groups[0][:, -1] - groups[0][:, 0]))
    claim = f"{where}: {ENODE} achieves no meaningful improvement (less than {NO_PROGRESS:g})"
    return Verdict(claim, f"from first to last test {gain}", below(gain, NO_PROGRESS), gain.samples)


def _leads_most_on_hardest(tasks: dict[str, RunsByAgent]) -> Verdict:
    """Compare the lead over the better baseline on the hardest system with the largest such lead on another."""
    ordered = [tasks[HARDEST], *(task for name, task in tasks.items() if name != HARDEST)]
    groups = [final_scores(task[agent]) for task in ordered for agent in (OURS, *BASELINES)]

    def excess(groups: Sequence[Samples]) -> float:
        means = np.array([interquartile_mean(group) for group in groups]).reshape(len(ordered), -1)
        leads = means[:, 0] - means[:, 1:].max(axis=1)
        return float(leads[0] - leads[1:].max())

    found = bootstrap(groups, excess)
    claim = f"the lead over the baselines is largest on {HARDEST}"
    said = f"lead over the better baseline there, less the largest elsewhere: {found}"
    return Verdict(claim, said, above(found, 0.0), found.samples)


EXPERIMENT = PaperExperiment(
    DEFINITIONS,
    _runs,
    measured=lambda results: base.score_table(results, "agent", lambda settings: settings["agent"]),
    verdicts=_verdicts,
    figure=lambda results: plot_comparison(compare(results)),
)
