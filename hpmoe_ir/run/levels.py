"""Execution of one function of a compiled layer at any level, on the same values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
from xdsl.utils.exceptions import InterpretationError

from hpmoe_ir.dialects import queue, tile
from hpmoe_ir.dialects.role import RoleKind
from hpmoe_ir.dialects.tile import BufferOp, buffer_type, program_signature
from hpmoe_ir.driver.compiler import Compiled, CompiledKernel
from hpmoe_ir.dtypes import Dtype, from_bits, to_bits
from hpmoe_ir.interpreter.module import run_module
from hpmoe_ir.interpreter.tasks import ProgramRun
from hpmoe_ir.interpreter.values import Array
from hpmoe_ir.kernels.route_layout import STATUS_OK
from hpmoe_ir.run.execution import RankInputs, Raw, run_program
from hpmoe_ir.run.first_wrong_task import first_wrong_task
from hpmoe_ir.runtime.cpu_model import MemoryModel

Values: TypeAlias = Sequence[Array]
"""Arrays of one rank, in the order of a function's arguments or results: int32 ids, and float32
values that are representable in their element type."""

Program: TypeAlias = tile.ProgramOp | queue.ProgramOp


class CapacityError(RuntimeError):
    """The routing would exceed the capacity of a rank; no rows were sent."""


class StatusError(RuntimeError):
    """The ranks report different launch statuses."""


def run_level(
    level: str,
    compiled: Compiled,
    function: str,
    launches: Sequence[Sequence[Values]],
    seed: int = 0,
    executable: Path | None = None,
    late: Sequence[int] = (),
    memory: MemoryModel = "strong",
) -> list[list[list[Array]]]:
    """Runs `function` at `level` and returns its results for each launch and rank, in order.

    `launches[n][r]` has an array for each argument, in order (`hpmoe_ir.run.signature`). Arrays
    have the actual number of rows; saved rows may be padded to the capacity. The level `code` needs
    `executable`, built by `build_program`; there, ranks in `late` run only while no other rank can,
    and `memory` says when writes to global memory become visible. Raises DeviceFault,
    InterpretationError, CapacityError or StatusError.
    """
    if level in ("moe", "comm"):
        return [_run_graph(level, compiled, function, values) for values in launches]
    kernel = compiled.kernels[function]
    if level in ("tile", "queue"):
        return _run_tasks(level, compiled, function, launches, seed)
    assert level == "code", f"no level {level}"
    assert executable is not None
    inputs = [[rank_inputs(kernel, values) for values in launch] for launch in launches]
    results = run_program(
        kernel.program, executable, kernel.table, inputs, seed, late=late, memory=memory
    )
    return [_results(kernel, outputs) for outputs in results]


def explain(
    kernel: CompiledKernel,
    dtype: Dtype,
    launches: Sequence[Sequence[Values]],
    seed: int,
    executable: Path,
    late: Sequence[int] = (),
    memory: MemoryModel = "strong",
) -> str:
    """Describes the first task of the last launch with wrong writes; "" if there is none."""
    inputs = [[rank_inputs(kernel, values) for values in launch] for launch in launches]
    floats = [[_by_buffer(kernel.program.op, values) for values in launch] for launch in launches]
    return first_wrong_task(kernel, dtype, inputs, floats, seed, executable, late, memory)


def rank_inputs(kernel: CompiledKernel, values: Values) -> RankInputs:
    """Converts the arguments of one rank to raw kernel inputs."""
    given = _by_buffer(kernel.program.op, values)
    buffers = kernel.program.buffers
    tokens = next(
        len(array)
        for name, array in given.items()
        if buffer_type(buffers[name]).rows.data == "tokens"
    )
    return RankInputs({name: _raw(buffers[name], array) for name, array in given.items()}, tokens)


def _by_buffer(program: Program, values: Values) -> dict[str, Array]:
    """Maps the ordered arguments of a program to buffer names."""
    arguments = program_signature(program).arguments
    return {p.buffer: array for p, array in zip(arguments, values, strict=True)}


def _in_order(program: Program, arrays: Mapping[str, Array]) -> list[Array]:
    """Returns the results of a program in order, without its status."""
    return [arrays[name] for name in _result_buffers(program)]


def _result_buffers(program: Program) -> list[str]:
    """Returns the result buffers of a program in order, without its status."""
    results = program_signature(program).results
    return [p.buffer for p in results if p.role is None or p.role.kind is not RoleKind.STATUS]


def _status_buffer(program: Program) -> str:
    """Returns the name of the launch status buffer."""
    status = program_signature(program).result(RoleKind.STATUS)
    assert status is not None, "programs of a layer have a status"
    return status.buffer


def element_dtype(buffer: BufferOp) -> Dtype | None:
    """Returns the name of a buffer's float type, None for integers."""
    text = str(buffer_type(buffer).element_type)
    return {"bf16": "bf16", "f16": "f16", "f32": "f32"}.get(text)  # pyright: ignore[reportReturnType]


def _raw(buffer: BufferOp, values: Array) -> Raw:
    """Returns the raw memory of an input; grouped or sent rows are padded with NaN rows."""
    dtype, type = element_dtype(buffer), buffer_type(buffer)
    if type.rows.data in ("grouped", "sent") and values.shape[0] < type.dims[0]:
        full = np.full((type.dims[0], *values.shape[1:]), np.nan, values.dtype)
        full[: values.shape[0]] = values
        values = full
    return values.astype(np.int32) if dtype is None else to_bits(values, dtype)


def _results(kernel: CompiledKernel, outputs: Sequence[Mapping[str, Raw]]) -> list[list[Array]]:
    program = kernel.program
    status = _status_buffer(program.op)
    check_status([o[status] for o in outputs])
    results: list[list[Array]] = []
    for by_name in outputs:
        result: list[Array] = []
        for name in _result_buffers(program.op):
            dtype = element_dtype(program.buffers[name])
            result.append(by_name[name] if dtype is None else from_bits(by_name[name], dtype))
        results.append(result)
    return results


def _run_graph(
    level: str, compiled: Compiled, name: str, launch: Sequence[Values]
) -> list[list[Array]]:
    args = [list(arrays) for arrays in zip(*launch, strict=True)]
    try:
        results = run_module(compiled.modules[level], name, args)
    except InterpretationError as e:
        # The remaining lines of xDSL's message are the whole module.
        raise InterpretationError(str(e).splitlines()[0]) from None
    return [[result[r] for result in results] for r in range(len(launch))]


def _run_tasks(
    level: str,
    compiled: Compiled,
    name: str,
    launches: Sequence[Sequence[Values]],
    seed: int,
) -> list[list[list[Array]]]:
    program = next(
        op
        for op in compiled.modules[level].ops
        if isinstance(op, tile.ProgramOp | queue.ProgramOp) and op.sym_name.data == name
    )
    run = ProgramRun(program, seed)
    status = _status_buffer(program)
    results: list[list[list[Array]]] = []
    for launch in launches:
        outputs = run.launch([_by_buffer(program, values) for values in launch])
        check_status([o[status] for o in outputs])
        for memory, output in zip(run.memory, outputs, strict=True):
            for key, buffer in memory.buffers.items():
                if key in output and buffer_type(buffer).rows.data == "tokens":
                    output[key] = output[key][: memory.tokens]
        results.append([_in_order(program, output) for output in outputs])
    return results


def check_status(status: Sequence[Array]) -> None:
    """Raises StatusError if ranks disagree, CapacityError if a rank exceeds its capacity.

    `status[r]` are the status words of rank r.
    """
    words = np.stack([s[:4] for s in status]).astype(np.int64)
    if (words != words[0]).any():
        raise StatusError(f"ranks disagree on the status of the launch: {words.tolist()}")
    code, rank, rows, capacity = words[0].tolist()
    if code != STATUS_OK:
        raise CapacityError(
            f"rank {rank} would receive {rows} rows, its capacity is {capacity} rows; every rank "
            "stopped before anything was sent"
        )
