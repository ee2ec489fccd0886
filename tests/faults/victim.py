"""The command line, with a SIGKILL at the n-th operation on files in this folder: `python victim.py N train ...`."""

import os
import signal
import sys
from itertools import count
from pathlib import Path

from strikes import striking  # pyright: ignore[reportMissingImports]

from ctmle.lab.cli.main import main

operations = count(1)
fatal = int(sys.argv[1])


def strike(operation: str, path: str) -> None:
    if "/cache/" not in path and next(operations) == fatal:
        os.kill(os.getpid(), signal.SIGKILL)


with striking(Path.cwd(), strike):
    main(sys.argv[2:])
