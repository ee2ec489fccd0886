"""`ctmle theory variance`: the total variance of the policies of a class, or of a trained one."""

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

from ctmle import theory
from ctmle.config.theory import VarianceQuestion
from ctmle.lab.cli.theory import answer
from ctmle.lab.run import Run
from ctmle.lab.storage.run_folder import RunFolder
from ctmle.theory.exact.cases import CLASSES


@answer.register
def _variance(q: VarianceQuestion) -> None:
    if q.samples < 4:
        raise ValueError(f"--samples must be at least 4, not {q.samples}")
    if not 0 < q.step <= 1:
        raise ValueError(f"--step must lie between 0 and 1 second, not {q.step}")
    if q.run is not None:
        _of_run(q, q.run)
    else:
        _of_class(q)


def _of_class(q: VarianceQuestion) -> None:
    models = CLASSES[q.model_class](q.noise, q.gap, q.separation)
    linear = isinstance(models, theory.LinearClass)
    table = Table(title=f"{q.model_class}, noise {q.noise:g}, under the truth; {q.samples} simulated trajectories")
    columns = ("policy", "value", "Var^u", "simulated", "95% interval", *(("bound", "tight") if linear else ()))
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    values, variances = np.asarray(models.values)[int(models.truth)], np.asarray(models.variances)
    for policy in range(models.policies):
        seen = theory.estimate_variance(theory.class_returns(models, policy, q.samples, q.step, q.seed))
        cells = [f"{values[policy]:.4f}", f"{variances[policy]:.4g}", f"{seen.variance:.4g}"]
        cells.append(f"{seen.low:.3g} to {seen.high:.3g}")
        if linear:
            constants = theory.closed_loop_smoothness(models, policy)
            bounds = (theory.variance_bound(constants), theory.variance_bound_tight(constants))
            cells += [f"{bound:.3g}" for bound in bounds]
        table.add_row(str(policy), *cells)
    Console(highlight=False).print(table)


def _of_run(q: VarianceQuestion, run: str) -> None:
    folder = RunFolder.open(run)
    job, checkpoint = Run(folder.read_config()), folder.read_checkpoint()
    if not checkpoint.records:
        raise ValueError(f"{folder.path} has finished no episode yet: go on with `ctmle resume {folder.path}`")
    policy, episode = job.output(job.restore(checkpoint), "final")
    returns = theory.simulated_returns(job.env, policy, jax.random.key(q.seed), trajectories=q.samples, step=q.step)
    seen = theory.estimate_variance(returns)
    print(
        f"Var^u = {seen.variance:.6g} (95% interval {seen.low:.6g} to {seen.high:.6g}, {seen.samples} trajectories)"
        f" of the mean reward over the horizon; policy of episode {episode}, mean {returns.mean():.4f}"
    )
