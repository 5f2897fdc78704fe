"""Runs a compiled layer at any of its levels, on the same values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from xdsl.utils.exceptions import InterpretationError

from hpmoe_ir.compiler import Compiled
from hpmoe_ir.dialects import queue, tile
from hpmoe_ir.dtypes import FloatArray, from_bits
from hpmoe_ir.execution import RankInputs, Raw, run_program
from hpmoe_ir.first_wrong_task import first_wrong_task
from hpmoe_ir.frontends.build_layer import ARGUMENTS
from hpmoe_ir.interpreter.module import run_module
from hpmoe_ir.interpreter.tasks import ProgramRun
from hpmoe_ir.interpreter.values import Array
from hpmoe_ir.route_layout import STATUS_OK
from hpmoe_ir.values import LayerValues

RUN_LEVELS = ("moe", "comm", "tile", "queue", "code")
"""Levels that can be run, from the graph down."""


class CapacityError(RuntimeError):
    """The routing would send a rank more rows than its capacity; nothing was sent."""


def run_level(
    level: str,
    compiled: Compiled,
    launches: Sequence[LayerValues],
    seed: int = 0,
    executable: Path | None = None,
) -> list[list[FloatArray]]:
    """Outputs of each launch and rank, float32 [t_r, H].

    `executable` is what `build_program` made, for the level `code`. Raises DeviceFault,
    InterpretationError or CapacityError.
    """
    if level in ("moe", "comm"):
        return [_run_graph(level, compiled, values) for values in launches]
    if level in ("tile", "queue"):
        return _run_tasks(level, compiled, launches, seed)
    assert level == "code", f"no level {level}"
    assert executable is not None
    return _run_code(compiled, launches, seed, executable)


def rank_arrays(values: LayerValues, rank: int) -> dict[str, Raw]:
    """The raw inputs of one rank, by the name of the argument."""
    arrays = (
        values.x[rank],
        values.routing[rank].ids,
        values.routing[rank].gates,
        values.w13[rank],
        values.w2[rank],
    )
    return dict(zip(ARGUMENTS, arrays, strict=True))


def _floats(values: LayerValues, rank: int) -> dict[str, Array]:
    raw = rank_arrays(values, rank)
    return {
        name: from_bits(array, values.config.dtype) if array.dtype.itemsize == 2 else array
        for name, array in raw.items()
    }


def _run_graph(level: str, compiled: Compiled, values: LayerValues) -> list[FloatArray]:
    ranks = range(values.config.ranks)
    by_rank = [_floats(values, r) for r in ranks]
    args = [[by_rank[r][name] for r in ranks] for name in ARGUMENTS]
    try:
        return run_module(compiled.modules[level], None, args)[0]
    except InterpretationError as e:
        # The rest of xDSL's message is the whole module.
        raise InterpretationError(str(e).splitlines()[0]) from None


def _arguments(compiled: Compiled, arrays: dict[str, Array]) -> dict[str, Array]:
    """Arrays by input buffer; buffers are in the order of the function's arguments."""
    names = [b.sym_name.data for b in compiled.program.in_space("input")]
    return dict(zip(names, (arrays[a] for a in ARGUMENTS), strict=True))


def _raw_inputs(compiled: Compiled, values: LayerValues) -> list[RankInputs]:
    return [
        RankInputs(_arguments(compiled, rank_arrays(values, r)), values.tokens[r])
        for r in range(values.config.ranks)
    ]


def _float_inputs(compiled: Compiled, values: LayerValues) -> list[dict[str, Array]]:
    return [_arguments(compiled, _floats(values, r)) for r in range(values.config.ranks)]


def explain(
    compiled: Compiled, launches: Sequence[LayerValues], seed: int, executable: Path
) -> str:
    """The first task of the last launch that the generated code got wrong; empty if none."""
    return first_wrong_task(
        compiled,
        launches,
        [_raw_inputs(compiled, values) for values in launches],
        [_float_inputs(compiled, values) for values in launches],
        seed,
        executable,
    )


def _output(compiled: Compiled) -> str:
    return compiled.program.in_space("output")[0].sym_name.data


def _run_tasks(
    level: str, compiled: Compiled, launches: Sequence[LayerValues], seed: int
) -> list[list[FloatArray]]:
    programs = [
        op for op in compiled.modules[level].ops if isinstance(op, tile.ProgramOp | queue.ProgramOp)
    ]
    run = ProgramRun(programs[0], seed)
    results: list[list[FloatArray]] = []
    for values in launches:
        outputs = run.launch(_float_inputs(compiled, values))
        _check_status([o["status"] for o in outputs])
        name = _output(compiled)
        results.append([o[name][:t] for o, t in zip(outputs, values.tokens, strict=True)])
    return results


def _run_code(
    compiled: Compiled, launches: Sequence[LayerValues], seed: int, executable: Path
) -> list[list[FloatArray]]:
    inputs = [_raw_inputs(compiled, values) for values in launches]
    results = run_program(compiled.program, executable, compiled.table, inputs, seed)
    for outputs in results:
        _check_status([o["status"] for o in outputs])
    name = _output(compiled)
    dtype = launches[0].config.dtype
    return [[from_bits(o[name], dtype) for o in outputs] for outputs in results]


def _check_status(status: Sequence[np.ndarray]) -> None:
    """Every rank must say the same; raises CapacityError where a rank is over its capacity."""
    words = np.stack([s[:4] for s in status]).astype(np.int64)
    if (words != words[0]).any():
        raise RuntimeError(f"ranks disagree on the status of the launch: {words.tolist()}")
    code, rank, rows, capacity = words[0].tolist()
    if code != STATUS_OK:
        raise CapacityError(
            f"rank {rank} would receive {rows} rows, its capacity is {capacity} rows; every rank "
            "stopped before anything was sent"
        )
