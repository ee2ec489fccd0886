"""The command line, with a SIGKILL at the n-th stage of writing files: `python victim.py N train ...`."""

import os
import signal
import sys
from itertools import count

from ctmle.lab.cli.main import main
from ctmle.lab.storage import files

stages = count(1)
fatal = int(sys.argv[1])


def strike(stage: str, path: object) -> None:
    if next(stages) == fatal:
        os.kill(os.getpid(), signal.SIGKILL)


files.on_write = strike
main(sys.argv[2:])
