"""The example that a new user copies from runs as it stands and learns something."""

import os
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parent.parent / "examples" / "dosing.py"


def test_the_dosing_example_learns_in_at_most_forty_lines():
    assert len(EXAMPLE.read_text().splitlines()) <= 40
    # It runs for longer than other tests do, so here optimising pays, but not much of it.
    cheap = ("--xla_cpu_use_fusion_emitters=false", "--xla_cpu_parallel_codegen_split_count=1")
    flags = " ".join(("--xla_backend_optimization_level=1", *cheap))
    optimised = {**os.environ, "XLA_FLAGS": flags}
    result = subprocess.run(
        [sys.executable, str(EXAMPLE)], env=optimised, capture_output=True, text=True, timeout=400, check=False
    )
    assert result.returncode == 0, result.stderr
    score = float(result.stdout.split("3 s: ")[1].split()[0])
    assert score > 0.7  # doing nothing scores 0.02, a full dose all the time 0.0
