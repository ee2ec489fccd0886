"""What many runs are: plans of runs, engines that do them, their one-line results.

    from ctmle.sweeps import Plan, run_sweep
    from ctmle.sweeps.engines.local import LocalEngine

    results = run_sweep(Plan.of(configs), Path("runs/mine"), LocalEngine())

JAX is loaded by the workers alone.
"""

from ctmle.sweeps.plan import Plan, PlannedRun
from ctmle.sweeps.result import Result
from ctmle.sweeps.sweep import run_sweep

__all__ = ["Plan", "PlannedRun", "Result", "run_sweep"]
