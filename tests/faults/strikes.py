"""Strike at operations on files: a hook before everything that a process does to the files of one folder."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

Strike = Callable[[str, str], None]
"""Called with the operation (open, write, fsync, rename, mkdir or unlink) and the path. It may raise or kill."""


class HalfWriter:
    """A file whose `write` is struck when half of the content is on the disk."""

    def __init__(self, file: Any, path: str, strike: Strike):
        self.file, self.path, self.strike = file, path, strike

    def __enter__(self) -> "HalfWriter":
        return self

    def __exit__(self, *exception: object) -> None:
        self.file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def write(self, content: bytes) -> None:
        half = len(content) // 2
        self.file.write(content[:half])
        self.file.flush()
        self.strike("write", self.path)
        self.file.write(content[half:])


@contextmanager
def striking(folder: Path, strike: Strike) -> Iterator[None]:
    """Call `strike` before each operation of this process on a file in the folder."""
    inside = os.path.realpath(folder)

    def path_of(target: Any) -> str:
        place = os.readlink(f"/proc/self/fd/{target}") if isinstance(target, int) else os.path.abspath(target)
        return os.path.join(os.path.realpath(os.path.dirname(place)), os.path.basename(place))

    def before(operation: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(target: Any, *arguments: Any, **options: Any) -> Any:
            path = path_of(target)
            struck = path.startswith(inside)
            if struck and operation != "write":
                strike(operation, path)
            result = function(target, *arguments, **options)
            return HalfWriter(result, path, strike) if struck and operation == "write" else result

        return call

    names = {"open": "open", "fdopen": "write", "fsync": "fsync", "replace": "rename", "rename": "rename",
             "mkdir": "mkdir", "unlink": "unlink"}  # fmt: skip
    with ExitStack() as stack:
        for name, operation in names.items():
            stack.enter_context(patch.object(os, name, before(operation, getattr(os, name))))
        yield
