"""What many runs are: plans of runs, engines that do them, their one-line results.

    from ctmle.lab.sweeps import Plan, run_sweep
    from ctmle.lab.sweeps.engines.local import LocalEngine

    results = run_sweep(Plan.of(configs), Path("runs/mine"), LocalEngine())

JAX is loaded by the workers alone.
"""

from ctmle.lab.sweeps.plan import Plan, PlannedRun
from ctmle.lab.sweeps.result import Result
from ctmle.lab.sweeps.sweep import run_sweep

__all__ = ["Plan", "PlannedRun", "Result", "run_sweep"]
