"""Queue programs that are ready for lowering: complete and checked, with their ops by name."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException

from hpmoe_ir.dialects.queue import (
    EventOp,
    OrderOp,
    ProgramOp,
    SignalOp,
    WaitOp,
    events_of,
    orders_of,
    signals_of,
    waits_of,
)
from hpmoe_ir.dialects.role import RoleKind
from hpmoe_ir.dialects.tile import (
    BufferOp,
    MemorySpace,
    TasksOp,
    buffer_bytes,
    buffers_of,
    families_of,
    program_signature,
)
from hpmoe_ir.dialects.tile.signature import RETURNED
from hpmoe_ir.integers import round_up
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.machines.machine import Machine, load_machine
from hpmoe_ir.passes.analysis.level import level_of


class LoweringError(DiagnosticException):
    """A program that cannot be lowered; the message names the missing part."""


@dataclass(frozen=True)
class LoweredProgram:
    """The parts of a queue program that lowering reads."""

    op: ProgramOp
    target: str
    """The target that the program is lowered for, named in error messages."""
    machine: Machine
    buffers: dict[str, BufferOp]
    families: dict[str, TasksOp]
    events: dict[str, EventOp]
    waits: list[WaitOp]
    signals: list[SignalOp]
    orders: dict[CoreKind, OrderOp]

    @property
    def name(self) -> str:
        """Name of the program, and of its kernel."""
        return self.op.sym_name.data

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return self.op.ranks.value.data

    @property
    def arguments(self) -> list[BufferOp]:
        """The caller's buffers in the order of the kernel's arguments: arguments of the program,
        then results that are not also arguments."""
        signature = program_signature(self.op)
        names = dict.fromkeys(p.buffer for p in (*signature.arguments, *signature.results))
        return [self.buffers[name] for name in names]

    @property
    def status(self) -> BufferOp | None:
        """The buffer of the status result, None if the program has none."""
        found = program_signature(self.op).result(RoleKind.STATUS)
        return None if found is None else self.buffers[found.buffer]

    @property
    def results(self) -> list[BufferOp]:
        """The caller's buffers that the kernel writes, in the order of its arguments."""
        return [b for b in self.arguments if b.space.data in RETURNED]

    def in_space(self, space: MemorySpace) -> list[BufferOp]:
        """Returns the buffers of one memory space."""
        return [b for b in self.buffers.values() if b.space.data == space]

    def signals_of_family(self, family: str) -> list[SignalOp]:
        """Returns the signals of a family's tasks, in the order in which a task sends them.

        Signals with a credit come last.
        """
        own = [s for s in self.signals if s.family_name == family]
        return sorted(own, key=lambda s: s.credit is not None)

    @property
    def counters(self) -> int:
        """Byte offset of the events' counters in the window memory."""
        assert self.op.counters is not None
        return self.op.counters.value.data

    @property
    def event_count(self) -> int:
        """Number of events."""
        return sum(e.event_count for e in self.events.values())

    @property
    def counter_count(self) -> int:
        """Number of cache lines of counters, with those between them that hold none.

        Lines are numbered from the first counter. Counters need not fill them: a pass may drop an
        event after `allocate-events`.
        """
        return max((e.end_line for e in self.events.values()), default=0)

    @property
    def workspace_bytes(self) -> int:
        """Size of the workspace, in bytes."""
        return self._end(MemorySpace.WORKSPACE)

    @property
    def window_bytes(self) -> int:
        """Size of the window memory with the counters, in bytes."""
        end = self.given_up if self.given_up is not None else self._end_of_counters
        return max(self._end(MemorySpace.WINDOW), end + self.given_up_bytes)

    @property
    def _end_of_counters(self) -> int:
        return self.counters + self.counter_count * self.machine.counter_line

    @property
    def given_up(self) -> int | None:
        """Byte offset in the window memory of the reports of timed-out waits, one line per core,
        AIC then AIV; None if waits have no budget.

        Words of a line: launch, event number, value read, target, queue slot.
        """
        return self._end_of_counters if self.op.ticks("budget") else None

    @property
    def given_up_bytes(self) -> int:
        """Size of the lines of `given_up`, in bytes."""
        if self.given_up is None:
            return 0
        return sum(o.core_count for o in self.orders.values()) * self.machine.counter_line

    def _end(self, space: MemorySpace) -> int:
        ends = [
            b.offset.value.data + buffer_bytes(b)
            for b in self.in_space(space)
            if b.offset is not None
        ]
        return round_up(max(ends, default=0), 512)


def lowered_program(module: ModuleOp, target: str, name: str = "") -> LoweredProgram:
    """Returns the program `name` of a module, or the only one, checked to be complete.

    Raises LoweringError naming the missing part and the pass that adds it.
    """
    programs = [op for op in module.ops if isinstance(op, ProgramOp)]
    if not programs:
        found = level_of(module)
        what = f"found {found[1].name} of the {found[0]} level" if found else "found none"
        raise LoweringError(f"target {target}: expected a queue.program, made by lower-moe; {what}")
    names = [op.sym_name.data for op in programs]
    if name:
        programs = [op for op in programs if op.sym_name.data == name]
        if not programs:
            known = ", ".join(f"@{n}" for n in names)
            raise LoweringError(f"target {target}: no queue.program @{name}; there are {known}")
    if len(programs) > 1:
        known = " or ".join(f"program={n}" for n in names)
        raise LoweringError(
            f"target {target}: {len(programs)} programs, name one of them by the option {known}"
        )
    op = programs[0]
    program = LoweredProgram(
        op,
        target,
        load_machine(op.machine.data).for_ranks(op.ranks.value.data),
        buffers_of(op),
        families_of(op),
        events_of(op),
        waits_of(op),
        signals_of(op),
        orders_of(op),
    )
    if not program.orders:
        raise LoweringError(
            f"target {target}: @{program.name} has no orders; tasks that were expanded cannot be "
            "lowered"
        )
    for core in CoreKind:
        if core not in program.orders:
            raise LoweringError(
                f"target {target}: @{program.name} has no order for the {core} cores; run "
                "assign-queues before it"
            )
    for name, buffer in program.buffers.items():
        if not buffer.space.data.is_of_caller and buffer.offset is None:
            raise LoweringError(
                f"target {target}: @{name} has no offset; run plan-memory before it"
            )
    if op.counters is None or any(e.line is None for e in program.events.values()):
        raise LoweringError(
            f"target {target}: @{program.name} has events without counters; run allocate-events "
            "before it"
        )
    return program
