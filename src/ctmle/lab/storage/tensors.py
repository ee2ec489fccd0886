"""Arrays in safetensors files: names and numbers, nothing that could run when it is loaded. No JAX in here."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from ctmle.lab.storage.files import SCHEMA, check_regular, check_schema, digest, write_whole

Arrays = dict[str, np.ndarray]


def write_tensors(path: Path, arrays: Arrays, about: dict[str, Any] | None = None) -> None:
    """Write arrays by name, and what JSON can hold `about` them."""
    described = {"schema": SCHEMA, **(about or {})}
    # One entry: the order of several would differ from run to run.
    metadata = {"ctmle": json.dumps({**described, "checksum": _checksum(described, arrays)})}
    write_whole(path, save(arrays, metadata=metadata))


def read_tensors(path: Path) -> tuple[Arrays, dict[str, Any]]:
    """The arrays of a file and what was said about them, if all is as it was written.

    Raises ValueError, with the file's name, what is wrong and what to do, for anything else.
    """
    arrays, about = _read(path, with_arrays=True)
    checksum = about.pop("checksum")
    if checksum != _checksum(about, arrays):
        raise ValueError(f"{path} was changed or damaged since it was written")
    return arrays, {key: value for key, value in about.items() if key != "schema"}


def read_about(path: Path) -> dict[str, Any]:
    """What was said about the arrays of a file, without reading them: nothing is checked but that it is there.

    Raises ValueError as `read_tensors` does.
    """
    return _read(path, with_arrays=False)[1]


def _read(path: Path, *, with_arrays: bool) -> tuple[Arrays, dict[str, Any]]:
    check_regular(path)
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()} if with_arrays else {}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, TypeError, KeyError, OverflowError, MemoryError) as error:
        raise ValueError(f"{path} is cut off, damaged or not a safetensors file ({error})") from error
    try:
        about = json.loads(metadata["ctmle"])
        schema, _ = about["schema"], about["checksum"]
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} was not written by ctmle") from error
    check_schema(path, schema)
    return arrays, about


def _checksum(described: dict[str, Any], arrays: Arrays) -> str:
    layout = [(name, str(array.dtype), array.shape) for name, array in sorted(arrays.items())]
    return digest([described, layout], *(arrays[name].tobytes() for name in sorted(arrays)))
