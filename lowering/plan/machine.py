"""Refuses programs that the machine, or the generated code for it, cannot run.

Tiling and `verify-queues` refuse what they choose or see themselves; a queue program can also come
from a file, so that all of it is checked here, before any code.
"""

from __future__ import annotations

from hpmoe_ir.diagnostics import refuse
from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.kernels.machine_fit import layer_misfit, list_limits
from hpmoe_ir.kernels.matmul import TILE_OPTIONS
from hpmoe_ir.kernels.matmul_tile import MatmulTile, TileSizeError, check_matmul_tile
from hpmoe_ir.lowering.program import LoweredProgram

ARCHITECTURE = "dav-2201"
"""The architecture of the device headers."""

COUNTER_LINE = 64
"""Bytes from one counter to the next; `kCounterLine` of hpmoe/machine.h."""

AIV_PER_AIC = 2
"""Vector cores for each matrix core in a mixed kernel; `kAivPerAic` of hpmoe/machine.h."""


def check_machine(program: LoweredProgram) -> None:
    """Raises RefusedError, naming what does not fit, unless the machine can run a program."""
    _check_description(program)
    for buffer in program.buffers.values():
        if isinstance(buffer.type, RouteType):
            route = buffer.type
            problem = layer_misfit(
                program.machine, program.ranks, route.experts.data, route.top.data
            )
            if problem:
                refuse(buffer, f"target {program.target}: @{buffer.sym_name.data}: {problem}")
    _check_kernels(program)
    _check_credits(program)


def _check_description(program: LoweredProgram) -> None:
    """Checks that the machine is one that the device headers are written for."""
    machine = program.machine
    for what, found, expected in (
        ("arch", machine.arch, ARCHITECTURE),
        ("[cores] aiv_per_aic", machine.aiv_per_aic, AIV_PER_AIC),
        ("[memory] counter_line", machine.counter_line, COUNTER_LINE),
    ):
        if found != expected:
            refuse(
                program.op,
                f"target {program.target}: machine {machine.name}: {what}: expected {expected}, "
                f"for which the device code is written, found {found}",
            )


def _check_kernels(program: LoweredProgram) -> None:
    """Checks the local memories, flags and instructions that the tasks of each family use."""
    for name, family in program.families.items():
        options = family.int_options
        problem = family.find_kernel().local_use(options).exceeds(program.machine)
        if not problem and all(option in options for option in TILE_OPTIONS):
            tile = MatmulTile(*(options[option] for option in TILE_OPTIONS))
            try:
                check_matmul_tile(tile, program.machine)
            except TileSizeError as e:
                problem = str(e)
        if problem:
            refuse(
                family,
                f"target {program.target}: @{name}, kernel '{family.kernel.data}': {problem}",
            )


def _check_credits(program: LoweredProgram) -> None:
    """Checks that a task that credits events has room for each of them."""
    most = list_limits(program.machine).credits
    for signal in program.signals:
        if signal.credit is None:
            continue
        event = program.events[signal.event_name]
        if event.event_count > most:
            refuse(
                signal,
                f"target {program.target}: @{event.sym_name.data}: expected at most {most} events "
                f"that a task credits, whose counts UB of {program.machine.name} holds, found "
                f"{event.event_count}",
            )
