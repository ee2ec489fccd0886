"""Many runs: plans of runs, engines that do them, and one line of results for each.

    from ctmle.lab.sweeps import Plan, run_sweep
    from ctmle.lab.sweeps.engines.local import LocalEngine

    results = run_sweep(Plan.of(experiments), Path("runs/mine"), LocalEngine())

Only the workers compute with JAX.
"""

from ctmle.lab.report.results import RunResult
from ctmle.lab.sweeps.plan import Plan, PlannedRun
from ctmle.lab.sweeps.sweep import run_sweep

__all__ = ["Plan", "PlannedRun", "RunResult", "run_sweep"]
