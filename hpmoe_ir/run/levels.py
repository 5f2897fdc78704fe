"""Runs one direction of a compiled layer at any of its levels, on the same values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.utils.exceptions import InterpretationError

from hpmoe_ir.dialects import queue, tile
from hpmoe_ir.dialects.tile import BufferOp, buffer_type
from hpmoe_ir.driver.compiler import Compiled, CompiledKernel
from hpmoe_ir.dtypes import Dtype, from_bits, to_bits
from hpmoe_ir.interpreter.module import run_module
from hpmoe_ir.interpreter.tasks import ProgramRun
from hpmoe_ir.interpreter.values import Array
from hpmoe_ir.kernels.route_layout import STATUS_OK
from hpmoe_ir.run.execution import RankInputs, Raw, run_program
from hpmoe_ir.run.first_wrong_task import first_wrong_task
from hpmoe_ir.runtime.cpu_model import MemoryModel

Values: TypeAlias = Mapping[str, Array]
"""Arrays of one rank by name: int32 ids, float32 values that their element type can hold."""


class CapacityError(RuntimeError):
    """The routing would send a rank more rows than its capacity; nothing was sent."""


class StatusError(RuntimeError):
    """Ranks disagree on whether the routing fits."""


def run_level(
    level: str,
    compiled: Compiled,
    function: str,
    launches: Sequence[Sequence[Values]],
    seed: int = 0,
    executable: Path | None = None,
    late: Sequence[int] = (),
    memory: MemoryModel = "strong",
) -> list[list[dict[str, Array]]]:
    """Results of `function` for each launch and rank, by name.

    `launches[n][r]` has an array for each argument. Arrays of rows have as many as there are;
    saved rows may come at their capacity. `executable` is what `build_program` made, for the level
    `code`; there, ranks in `late` go on only while no other can, and `memory` says when writes to
    global memory become visible. Raises DeviceFault,
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
    """The first task of the last launch that the generated code got wrong; empty if none."""
    inputs = [[rank_inputs(kernel, values) for values in launch] for launch in launches]
    return first_wrong_task(kernel, dtype, inputs, launches, seed, executable, late, memory)


def rank_inputs(kernel: CompiledKernel, values: Values) -> RankInputs:
    """The raw inputs of a kernel on one rank."""
    buffers = [b for b in kernel.program.arguments if b.space.data != "output"]
    tokens = next(
        len(values[b.sym_name.data]) for b in buffers if buffer_type(b).rows.data == "tokens"
    )
    arrays = {b.sym_name.data: _raw(b, values[b.sym_name.data]) for b in buffers}
    return RankInputs(arrays, tokens)


def element_dtype(buffer: BufferOp) -> Dtype | None:
    """Name of a buffer's float type, None for integers."""
    text = str(buffer_type(buffer).element_type)
    return {"bf16": "bf16", "f16": "f16", "f32": "f32"}.get(text)  # pyright: ignore[reportReturnType]


def _raw(buffer: BufferOp, values: Array) -> Raw:
    """Memory of an input; rows behind the last one of received or sent rows are NaN."""
    dtype, type = element_dtype(buffer), buffer_type(buffer)
    if type.rows.data in ("grouped", "sent") and values.shape[0] < type.dims[0]:
        full = np.full((type.dims[0], *values.shape[1:]), np.nan, values.dtype)
        full[: values.shape[0]] = values
        values = full
    return values.astype(np.int32) if dtype is None else to_bits(values, dtype)


def _results(
    kernel: CompiledKernel, outputs: Sequence[Mapping[str, Raw]]
) -> list[dict[str, Array]]:
    _check_status([o["status"] for o in outputs])
    results: list[dict[str, Array]] = []
    for by_name in outputs:
        result: dict[str, Array] = {}
        for buffer in kernel.program.results:
            name, dtype = buffer.sym_name.data, element_dtype(buffer)
            if dtype is not None:
                result[result_name(name)] = from_bits(by_name[name], dtype)
        results.append(result)
    return results


def _run_graph(
    level: str, compiled: Compiled, name: str, launch: Sequence[Values]
) -> list[dict[str, Array]]:
    module = compiled.modules[level]
    function = next(op for op in module.ops if isinstance(op, FuncOp) and op.sym_name.data == name)
    names = [a.name_hint or f"arg{i}" for i, a in enumerate(function.args)]
    args = [[values[n] for values in launch] for n in names]
    try:
        results = run_module(module, name, args)
    except InterpretationError as e:
        # The rest of xDSL's message is the whole module.
        raise InterpretationError(str(e).splitlines()[0]) from None
    returned = function.body.block.last_op
    assert isinstance(returned, ReturnOp)
    outputs = [v.name_hint or f"out{i}" for i, v in enumerate(returned.arguments)]
    return [
        {output: result[r] for output, result in zip(outputs, results, strict=True)}
        for r in range(len(launch))
    ]


def _run_tasks(
    level: str,
    compiled: Compiled,
    name: str,
    launches: Sequence[Sequence[Values]],
    seed: int,
) -> list[list[dict[str, Array]]]:
    program = next(
        op
        for op in compiled.modules[level].ops
        if isinstance(op, tile.ProgramOp | queue.ProgramOp) and op.sym_name.data == name
    )
    run = ProgramRun(program, seed)
    results: list[list[dict[str, Array]]] = []
    for launch in launches:
        outputs = run.launch(launch)
        _check_status([o.pop("status") for o in outputs])
        for memory, output in zip(run.memory, outputs, strict=True):
            for buffer in memory.buffers.values():
                if buffer.space.data in ("inout", "output") and buffer.sym_name.data in output:
                    key = buffer.sym_name.data
                    if buffer_type(buffer).rows.data == "tokens":
                        output[key] = output[key][: memory.tokens]
        results.append([{result_name(k): v for k, v in o.items()} for o in outputs])
    return results


def result_name(buffer: str) -> str:
    """Name of the result in a buffer: an accumulator holds the gradient that is added into it."""
    return buffer.removesuffix("_acc")


def _check_status(status: Sequence[Array]) -> None:
    """Every rank must say the same; raises CapacityError where a rank is over its capacity."""
    words = np.stack([s[:4] for s in status]).astype(np.int64)
    if (words != words[0]).any():
        raise StatusError(f"ranks disagree on the status of the launch: {words.tolist()}")
    code, rank, rows, capacity = words[0].tolist()
    if code != STATUS_OK:
        raise CapacityError(
            f"rank {rank} would receive {rows} rows, its capacity is {capacity} rows; every rank "
            "stopped before anything was sent"
        )
