"""Locates the first task with wrong writes after a run of generated code with a wrong result.

The same launches run at the queue level in NumPy. The memory after the generated code has run is
then compared with the expected writes of each task, family by family in program order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerType

from hpmoe_ir.dialects.access import Access
from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.dialects.tile import (
    BufferOp,
    MemorySpace,
    buffer_bytes,
    buffer_type,
    copy_bytes,
    element_bytes,
)
from hpmoe_ir.dialects.tile.signature import RETURNED
from hpmoe_ir.driver.compiler import CompiledKernel
from hpmoe_ir.dtypes import Dtype, from_bits, unit_roundoff
from hpmoe_ir.interpreter.memory import RankMemory, TaskMemory
from hpmoe_ir.interpreter.tasks import ProgramRun
from hpmoe_ir.run.execution import RankInputs, Raw, run_program
from hpmoe_ir.runtime.cpu_model import MemoryModel

ROOM = 64
"""Tolerance for another order of summation, in unit roundoffs relative to the largest value of a
tile. A wrong tile differs by far more."""


def first_wrong_task(
    kernel: CompiledKernel,
    dtype: Dtype,
    inputs: Sequence[Sequence[RankInputs]],
    floats: Sequence[Sequence[Mapping[str, np.ndarray[Any, Any]]]],
    seed: int,
    executable: Path,
    late: Sequence[int] = (),
    memory: MemoryModel = "strong",
) -> str:
    """Returns a message that names the first task with wrong writes in the last launch.

    `inputs[n][r]` are the raw inputs of launch n and rank r, `floats` the same as numerical arrays
    by input buffer; activations have the type `dtype`. Returns "" if no task differs.
    """
    program = kernel.program
    expected = ProgramRun(program.op, seed)
    for values in floats:
        expected.launch(values)
    results = run_program(
        program,
        executable,
        kernel.table,
        inputs,
        seed,
        read_back=("workspace", "windows"),
        late=late,
        memory=memory,
    )[-1]
    found = [
        _found_memory(memory, results[rank], dtype) for rank, memory in enumerate(expected.memory)
    ]
    shared = _shared_buffers(list(program.buffers.values()))
    for name, family in program.families.items():
        points = expected.points[name]
        for point in range(family.task_count):
            coords = [int(c[point]) for c in points]
            for rank in range(program.ranks):
                task = TaskMemory(expected.memory, rank, family, coords)
                seen = TaskMemory(found, rank, family, coords)
                for region in family.write_accesses:
                    if region.buffer in shared:
                        continue
                    difference = _difference(task, seen, region, dtype)
                    if difference:
                        where = ", ".join(str(c) for c in coords)
                        return f"first wrong task: @{name} ({where}) on rank {rank}: {difference}"
    return ""


def _found_memory(memory: RankMemory, result: dict[str, Raw], dtype: Dtype) -> RankMemory:
    """Converts the memory after a run of generated code to the interpreter's representation."""
    found = RankMemory(memory.buffers, tokens=memory.tokens, launch=memory.launch)
    for name, buffer in memory.buffers.items():
        space = buffer.space.data
        if space is MemorySpace.INPUT:
            found.arrays[name] = memory.arrays[name]
            continue
        if space in RETURNED:
            data = result[name].reshape(-1).view(np.uint8)
            found.arrays[name] = [_values(buffer, data, dtype)]
            continue
        assert buffer.offset is not None
        memory_bytes = result["windows" if space is MemorySpace.WINDOW else "workspace"]
        begin = buffer.offset.value.data
        found.arrays[name] = [
            _values(buffer, memory_bytes[begin + i * copy_bytes(buffer) :], dtype)
            for i in range(buffer.copies.value.data)
        ]
    return found


def _values(buffer: BufferOp, data: Raw, dtype: Dtype) -> np.ndarray[Any, Any]:
    """Decodes the elements of a buffer; rows missing in an output are filled with zeros."""
    if isinstance(buffer.type, RouteType):
        return data[: copy_bytes(buffer)].view(np.int32)
    type = buffer_type(buffer)
    size = element_bytes(type.element_type)
    rows = int(np.prod(type.dims[1:], dtype=np.int64)) * size
    count = min(type.dims[0], data.size // rows)
    raw = data[: count * rows].reshape(-1)
    if isinstance(type.element_type, IntegerType):
        values = raw.view(np.int32)
    else:
        values = from_bits(raw.view(np.uint16), dtype) if size == 2 else raw.view(np.float32)
    values = values.reshape(count, *type.dims[1:])
    full = np.zeros(type.dims, values.dtype)
    full[:count] = values
    return full


def _difference(task: TaskMemory, seen: TaskMemory, region: Access, dtype: Dtype) -> str:
    expected, found = task.tile(region).array, seen.tile(region).array
    if expected.size == 0 or region.scatter:
        return ""
    if expected.dtype.kind == "i":
        wrong = expected != found
    else:
        scale = np.abs(expected[np.isfinite(expected)]).max(initial=0.0)
        with np.errstate(invalid="ignore"):
            close = np.abs(expected - found) <= ROOM * unit_roundoff(dtype) * scale
            same = (expected == found) | (np.isnan(expected) & np.isnan(found))
        wrong = ~(close | same)
    if not wrong.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return (
        f"@{region.buffer}, {list(at)} of its tile of {list(expected.shape)}: expected "
        f"{expected[at]:.6g}, found {found[at]:.6g} ({int(wrong.sum())} of {wrong.size} differ)"
    )


def _shared_buffers(buffers: Sequence[BufferOp]) -> set[str]:
    """Returns the workspace buffers that share memory, whose earlier content is overwritten."""
    spans = [
        (b.offset.value.data, b.offset.value.data + buffer_bytes(b), b.sym_name.data)
        for b in buffers
        if b.space.data is MemorySpace.WORKSPACE and b.offset is not None
    ]
    return {
        name
        for begin, end, name in spans
        for other_begin, other_end, other in spans
        if other != name and begin < other_end and other_begin < end
    }
