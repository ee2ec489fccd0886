"""Every mistake on the command line and in files of settings (`tests/test_mistakes.py`): one line, exit code 2.

python tests/faults/table.py --only mistakes        (`make faults` runs all classes)
"""

import re
import subprocess
import sys
from pathlib import Path

from tally import Tally  # pyright: ignore[reportMissingImports]


def attack() -> Tally:
    """Run the tests that make every mistake, and count the mistakes that they made."""
    file = Path(__file__).parent.parent / "test_mistakes.py"
    command = [sys.executable, "-m", "pytest", "-n", "0", "-s", "-m", "slow", str(file)]
    done = subprocess.run(command, cwd=file.parent.parent, capture_output=True, text=True, check=False)
    made = [int(number) for number in re.findall(r"(\d+) bad (?:command lines|files of settings):", done.stdout)]
    return Tally(sum(made), [] if done.returncode == 0 and len(made) == 2 else [done.stdout[-500:]])
