"""Mutated files of a routing."""

from __future__ import annotations

import io
import struct
import zipfile
from random import Random
from typing import Any

import numpy as np

from text_fuzz.mutate import flip, mutate
from text_fuzz.seeds import Seeds
from text_fuzz.watch import Case


def routing(seeds: Seeds, rng: Random) -> Case:
    """A mutated file of a routing: arrays, headers of arrays, bytes."""
    arrays: dict[str, Any] = dict(seeds.routing)
    changes: list[str] = []
    for _ in range(rng.choice((1, 1, 2))):
        key = rng.choice(list(arrays))
        array = arrays.pop(key)
        change = rng.randrange(9)
        changes.append(f"{key}:{change}")
        match change:
            case 0:
                pass
            case 1:
                arrays[
                    rng.choice((key + "0", "ids.-1", "ids.9", "x", "ids.01", "ids", "\u00e9"))
                ] = array
            case 2:
                type = rng.choice(("f2", "f4", "f8", "i1", "u1", "i8", "u8", "c8", "?", "U3", "S2",
                                   "M8[s]", ">i4", ">f4"))  # fmt: skip
                arrays[key] = array.astype(type) if array.dtype.kind in "if" else array
            case 3:
                shape = rng.choice(((-1,), (1, -1), (2, 6), (3, 4), (12, 1), (1, 1, 12), (6, 2, 1)))
                arrays[key] = array.reshape(shape)
            case 4:
                rows, columns = rng.randrange(7), rng.randrange(3)
                arrays[key] = array[:rows, :columns] if array.ndim == 2 else array[:rows]
            case 5 | 6:
                copy = array.copy().reshape(-1)
                number = rng.choice((-1, 0, 1, 4, 99, 2**31 - 1, np.nan, np.inf, -0.0))
                if copy.size and (copy.dtype.kind == "f" or np.isfinite(number)):
                    copy[rng.randrange(copy.size)] = min(number, 65504)
                arrays[key] = copy.reshape(array.shape)
            case 7:
                odd = (np.array(3), np.zeros((0, 2), np.int32), np.zeros((9, 2), np.int32))
                arrays[key] = rng.choice((*odd, np.array([]), np.zeros((6, 2, 0))))
            case _:
                arrays[key] = np.array([object(), None], dtype=object)
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    data = stream.getvalue()
    match rng.randrange(8):
        case 0:
            data = flip(data, rng)
            changes.append("flip")
        case 1:
            changes.append("header")
            data = _forged(rng)
        case _:
            pass
    files = {"graph.mlir": seeds.graph.encode(), "r.npz": data}
    args = ("run", "graph.mlir", "--level", "moe", "--routing", "r.npz")
    return Case("routing", "hpmoe", args, files, " ".join(changes))


def _forged(rng: Random) -> bytes:
    """A `.npz` file whose arrays have mutated headers and few bytes."""
    header = "{'descr': '<i4', 'fortran_order': False, 'shape': (6, 2), }"
    text, _ = mutate(header, rng)
    if rng.random() < 0.5:
        shape = rng.choice(
            ("(99999999999, 2)", "(-1, 2)", "(6, 99999999)", "(2**70,)", "6", "None")
        )
        text = header.replace("(6, 2)", shape).encode()
    data = b"\x93NUMPY\x01\x00" + struct.pack("<H", min(len(text), 65535)) + text + bytes(48)
    stream = io.BytesIO()
    with zipfile.ZipFile(
        stream, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    ) as file:
        for rank in range(2):
            file.writestr(f"ids.{rank}.npy", data)
    return stream.getvalue()
