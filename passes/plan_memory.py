"""`plan-memory`: assigns byte offsets to workspace buffers and windows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.passes import ModulePass

from hpmoe_ir.diagnostics import refuse
from hpmoe_ir.dialects.tile import (
    BufferOp,
    DependenceOp,
    MemorySpace,
    ProgramOp,
    buffer_bytes,
    buffers_of,
    families_of,
)
from hpmoe_ir.integers import round_up
from hpmoe_ir.machines.machine import Machine
from hpmoe_ir.options.machine import MachineOption
from hpmoe_ir.passes.analysis.level import programs_at

ALIGNMENT = 512
"""Alignment of buffers, in bytes: DMA is fastest at multiples of 512 (Ascend C documentation)."""


@dataclass(frozen=True)
class MemoryOptions(MachineOption):
    """Options of the placement of buffers."""

    reuse: bool = True
    """Whether workspace buffers whose uses are ordered may share memory."""

    over_memory: bool = False
    """Whether a program may need more device memory than the machine has."""


@dataclass(frozen=True)
class PlanMemoryPass(MemoryOptions, ModulePass):
    """Gives each workspace buffer and each window its byte offset.

    Windows never share memory: this rank does not order the writes of its peers. Two workspace
    buffers share memory only if each task that uses the first ends before any task that uses the
    second starts, on the same rank, by dependences between whole families (`reuse=false` disables
    sharing). Larger buffers are placed first, each at the lowest free offset.

    No buffer is cleared, here or at run time: tasks read only what tasks that they depend on have
    written (`insert-dependencies` refuses a read without a writer), rows past the actual row count
    are never read, and the gradient of an expert without rows is written as zeros by its task.

    A program whose buffers exceed the device memory of the machine ([memory] hbm) is refused,
    unless `over-memory=true`. All buffers of one program count: the caller's, the workspace and the
    windows. What other programs and the libraries keep there does not.

    Needs dependences (`insert-dependencies`); without them no memory is shared. Promises offsets
    that are multiples of 512 bytes, an order between any two tasks whose buffers overlap, and
    buffers that fit the device memory.

    ```
    tile.buffer @h workspace : !tile.buffer<grouped 256 rows, 64xbf16>
    tile.buffer @a workspace : !tile.buffer<grouped 256 rows, 32xbf16>
    ```
    becomes
    ```
    tile.buffer @h workspace at 0 : !tile.buffer<grouped 256 rows, 64xbf16>
    tile.buffer @a workspace at 32768 : !tile.buffer<grouped 256 rows, 32xbf16>
    ```
    """

    name = "plan-memory"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        machine = self.load_machine()
        for program in programs_at(op, ProgramOp, self.name):
            buffers = buffers_of(program)
            apart = _Lifetimes(program)
            workspace = [b for b in buffers.values() if b.space.data is MemorySpace.WORKSPACE]
            windows = [b for b in buffers.values() if b.space.data is MemorySpace.WINDOW]
            _place(workspace, lambda a, b: not (self.reuse and apart.never_together(a, b)))
            _place(windows, lambda a, b: True)
            if not self.over_memory:
                _check_device_memory(program, machine)


def _check_device_memory(program: ProgramOp, machine: Machine) -> None:
    """Raises RefusedError if the buffers of a program exceed the device memory."""
    if machine.hbm_bytes is None:
        return
    callers = workspace = windows = 0
    for buffer in buffers_of(program).values():
        size = buffer_bytes(buffer)
        if buffer.offset is None:
            callers += size
        elif buffer.space.data is MemorySpace.WORKSPACE:
            workspace = max(workspace, buffer.offset.value.data + size)
        else:
            windows = max(windows, buffer.offset.value.data + size)
    if callers + workspace + windows > machine.hbm_bytes:
        refuse(
            program,
            f"plan-memory: @{program.sym_name.data} needs {callers + workspace + windows} bytes of "
            f"device memory ({callers} for arguments and results, {workspace} of workspace, "
            f"{windows} of windows), {machine.name} has {machine.hbm_bytes}: lower the capacity, "
            "or allow it by the option 'over-memory'",
        )


def _place(buffers: list[BufferOp], conflict: Callable[[BufferOp, BufferOp], bool]) -> None:
    placed: list[tuple[int, int, BufferOp]] = []
    order = sorted(range(len(buffers)), key=lambda i: (-buffer_bytes(buffers[i]), i))
    for i in order:
        buffer = buffers[i]
        size = round_up(buffer_bytes(buffer), ALIGNMENT)
        offset = 0
        for begin, end, other in sorted(placed, key=lambda p: p[:2]):
            if begin < offset + size and offset < end and conflict(buffer, other):
                offset = end
        placed.append((offset, offset + size, buffer))
        buffer.offset = IntegerAttr(offset, i64)


class _Lifetimes:
    """Lifetime analysis: which buffers are never in use at the same time on a rank."""

    def __init__(self, program: ProgramOp) -> None:
        self.users: dict[str, set[str]] = defaultdict(set)
        for name, family in families_of(program).items():
            for access in (*family.read_accesses, *family.write_accesses):
                self.users[access.buffer].add(name)
            if family.route is not None:
                self.users[family.route.root_reference.data].add(name)
        joins: dict[str, set[str]] = defaultdict(set)
        follows: dict[str, set[str]] = defaultdict(set)
        for op in program.body.block.ops:
            # A range of events may be empty: it puts no family after another.
            if isinstance(op, DependenceOp) and op.peer is None and op.among is None:
                producer = op.producer.root_reference.data
                consumer = op.consumer.root_reference.data
                follows[producer].add(consumer)
                if op.event_count == 1:
                    joins[producer].add(consumer)
        self.before = {name: _closure(joins[name], follows) for name in families_of(program)}
        """For each family, the families whose tasks all start after all of its tasks have ended."""

    def never_together(self, a: BufferOp, b: BufferOp) -> bool:
        """Whether all uses of one buffer come before all uses of the other."""
        return self._before(a, b) or self._before(b, a)

    def _before(self, first: BufferOp, second: BufferOp) -> bool:
        return all(
            self.users[second.sym_name.data] <= self.before[user]
            for user in self.users[first.sym_name.data]
        )


def _closure(start: set[str], follows: dict[str, set[str]]) -> set[str]:
    """Returns `start` and the families that wait, even indirectly, for a task of it."""
    reached, todo = set(start), list(start)
    while todo:
        for name in follows[todo.pop()] - reached:
            reached.add(name)
            todo.append(name)
    return reached
