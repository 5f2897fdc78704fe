"""The plan of the host side of a program: sizes, arguments and names."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import i32

from hpmoe_ir.diagnostics import refuse
from hpmoe_ir.dialects.role import RoleKind
from hpmoe_ir.dialects.tile import BufferOp, MemorySpace, buffer_type, element_bytes
from hpmoe_ir.dialects.tile.types import BufferType
from hpmoe_ir.lowering.plan.program import ProgramPlan
from hpmoe_ir.lowering.program import LoweredProgram
from hpmoe_ir.lowering.task_table import HEADER

STATUS_TYPE = BufferType((16,), i32)


@dataclass(frozen=True)
class HostArgument:
    """A buffer that the caller passes to a launch."""

    name: str
    output: bool
    of_tokens: bool
    """Whether the buffer has one row for each token of the rank."""
    row_bytes: int
    """Bytes of one token row, or of the whole buffer if it has no token rows."""
    shape: str
    """Shape and element type for readers: `[tokens, 64] bf16`."""
    dims: tuple[int, ...]
    """Extents, of token rows the largest number of tokens first."""
    element: str
    """Element type: bf16, f16, f32 or i32."""


@dataclass(frozen=True)
class HostPlan:
    """Sizes and names from which the host side is generated."""

    name: str
    arch: str
    ranks: int
    tokens: int
    """Largest number of tokens of a rank."""
    workspace_bytes: int
    window_bytes: int
    header: tuple[int, ...]
    """Words of the header of the task table."""
    arguments: tuple[HostArgument, ...]
    """The caller's buffers without the status, in the order of the kernel's arguments."""
    events: tuple[tuple[str, int, int], ...]
    """Name, first number and count of each family of events; empty unless waits have a budget."""
    tasks: tuple[tuple[str, tuple[int, ...]], ...]
    """Name and extents of each family of tasks; empty unless waits have a budget."""
    kernel_arguments: tuple[str, ...]
    """The caller's buffers and the status, in the order of the kernel's arguments."""
    status: str
    """The kernel argument that is the status."""


def host_plan(plan: ProgramPlan, table: bytes) -> HostPlan:
    """Returns the plan of the host side of a program whose task table is `table`.

    Raises RefusedError if the program has no status.
    """
    program = plan.program
    status = program.status
    if status is None or status.type != STATUS_TYPE:
        found = "none" if status is None else f"one of {status.type}"
        refuse(
            status or program.op,
            f"target host: @{program.name}: expected a result of {STATUS_TYPE} with the role "
            f"{RoleKind.STATUS}, where the kernel says whether a rank is over capacity, found "
            f"{found}",
        )
    words = np.frombuffer(table, dtype="<u4", count=len(HEADER))
    arguments = [b for b in program.arguments if b is not status]
    tokens = [buffer_type(b).dims[0] for b in arguments if buffer_type(b).rows.data == "tokens"]
    return HostPlan(
        name=program.name,
        arch=program.machine.arch,
        ranks=program.ranks,
        tokens=min(tokens, default=0),
        workspace_bytes=program.workspace_bytes,
        window_bytes=program.window_bytes,
        header=tuple(int(w) for w in words),
        arguments=tuple(_argument(b) for b in arguments),
        events=_events(program) if program.given_up is not None else (),
        tasks=_tasks(program) if program.given_up is not None else (),
        kernel_arguments=tuple(b.sym_name.data for b in program.arguments),
        status=status.sym_name.data,
    )


def _events(program: LoweredProgram) -> tuple[tuple[str, int, int], ...]:
    found: list[tuple[str, int, int]] = []
    for name, event in program.events.items():
        for copy in range(event.copy_count):
            found.append((name, event.first_line(copy), event.event_count))
    return tuple(found)


def _tasks(program: LoweredProgram) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple((name, family.extents) for name, family in program.families.items())


def _argument(buffer: BufferOp) -> HostArgument:
    type = buffer_type(buffer)
    of_tokens = type.rows.data == "tokens"
    dims = type.dims[1:] if of_tokens else type.dims
    shape = ["tokens" if of_tokens else f"{type.dims[0]}", *(str(n) for n in type.dims[1:])]
    return HostArgument(
        name=buffer.sym_name.data,
        output=buffer.space.data is MemorySpace.OUTPUT,
        of_tokens=of_tokens,
        row_bytes=int(np.prod(dims, dtype=np.int64)) * element_bytes(type.element_type),
        shape=f"[{', '.join(shape)}] {type.element_type}",
        dims=tuple(type.dims),
        element=str(type.element_type),
    )
