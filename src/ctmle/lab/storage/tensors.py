"""Arrays in safetensors files: names and numbers, nothing that could run when it is loaded. No JAX in here.

The header of a file has its own checksum and is read first, so that sizes are known before memory is taken for them.
"""

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from ctmle.lab.storage.files import SCHEMA, check_schema, digest, open_regular, write_whole

Arrays = dict[str, np.ndarray]

Layout = dict[str, tuple[np.dtype, tuple[int, ...]]]
"""Types and shapes of arrays by name."""

LARGEST_HEADER = 1_000_000
"""Bytes. No header that is written here is larger."""

TYPES = {"BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "F16": "float16",
         "U32": "uint32", "I32": "int32", "F32": "float32", "U64": "uint64", "I64": "int64",
         "F64": "float64"}  # fmt: skip
"""Types of arrays by their names in a header."""


def layout_of(arrays: Arrays) -> Layout:
    return {name: (array.dtype, array.shape) for name, array in arrays.items()}


def write_tensors(path: Path, arrays: Arrays, about: dict[str, Any] | None = None) -> None:
    """Write arrays by name, and what JSON can hold `about` them."""
    described = {"schema": SCHEMA, **(about or {}), "arrays": _checksum_of(arrays)}
    # One entry: the order of several would differ from run to run.
    metadata = {"ctmle": json.dumps({**described, "checksum": digest(described)})}
    write_whole(path, save(arrays, metadata=metadata))


def read_tensors(path: Path, fits: Callable[[Layout], None] | None = None) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays of a file and what was said about them. Raises ValueError if it is not as it was written.

    `fits` may raise it, too, before the arrays are read.
    """
    layout, about = _read_header(path)
    if fits is not None:
        fits(layout)
    try:
        with safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, TypeError, KeyError, OverflowError, MemoryError) as error:
        raise ValueError(f"{path} is cut off, damaged or not a safetensors file ({error})") from error
    if about.pop("arrays") != _checksum_of(arrays):
        raise ValueError(f"{path} was changed or damaged since it was written")
    return arrays, about


def read_about(path: Path) -> dict[str, Any]:
    """Return what was said about the arrays of a file without reading them. Raises ValueError if that was changed."""
    about = _read_header(path)[1]
    del about["arrays"]
    return about


def _read_header(path: Path) -> tuple[Layout, dict[str, Any]]:
    """Return the declared types and shapes, which add up to the file's size, and what was said about the arrays."""
    with open_regular(path) as file:
        all_bytes = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if all_bytes < 8 or length > min(all_bytes - 8, LARGEST_HEADER):
            raise ValueError(f"{path} is cut off, damaged or not a safetensors file (its header has no end)")
        raw = file.read(length)
    try:
        header = json.loads(raw)
        metadata = header.pop("__metadata__", {})
        layout = {name: _declared(entry) for name, entry in header.items()}
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} is cut off, damaged or not a safetensors file (its header says nothing)") from error
    if 8 + length + sum(kind.itemsize * math.prod(shape) for kind, shape in layout.values()) != all_bytes:
        raise ValueError(f"{path} is cut off or damaged: its size is not what its header says")
    try:
        about = json.loads(metadata["ctmle"])
        schema, checksum, _ = about["schema"], about.pop("checksum"), about["arrays"]
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} was not written by ctmle") from error
    check_schema(path, schema)
    if checksum != digest(about):
        raise ValueError(f"{path} was changed or damaged since it was written")
    del about["schema"]
    return layout, about


def _declared(entry: dict[str, Any]) -> tuple[np.dtype, tuple[int, ...]]:
    shape = entry["shape"]
    if not isinstance(shape, list) or not all(type(size) is int and 0 <= size < 2**48 for size in shape):
        raise ValueError("a shape that no array has")
    return np.dtype(TYPES[entry["dtype"]]), tuple(shape)


def _checksum_of(arrays: Arrays) -> str:
    layout = [(name, str(array.dtype), array.shape) for name, array in sorted(arrays.items())]
    return digest(layout, *(arrays[name].tobytes() for name in sorted(arrays)))
