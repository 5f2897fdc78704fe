"""Refuses programs whose memory, counters or kernels do not fit the machine."""

from __future__ import annotations

import numpy as np

from hpmoe_ir.diagnostics import refuse
from hpmoe_ir.dialects.queue import EventOp, ProgramOp, events_of, orders_of
from hpmoe_ir.dialects.tile import MemorySpace, buffer_bytes, buffers_of, families_of
from hpmoe_ir.machines.machine import Machine, load_machine
from hpmoe_ir.passes.proof.tasks import NONE, QueueTasks


def check_layout(program: ProgramOp) -> None:
    """Checks that counters do not overlap and that kernels fit the local memories.

    Each counter needs a cache line of its own, outside the windows; counters that `allocate-events`
    has not placed yet are skipped. Raises RefusedError.
    """
    machine = load_machine(program.machine.data)
    _check_counters(program, machine)
    for name, family in families_of(program).items():
        problem = family.find_kernel().local_use(family.int_options).exceeds(machine)
        if problem:
            refuse(family, f"verify-queues: @{name}, kernel '{family.kernel.data}': {problem}")


def _check_counters(program: ProgramOp, machine: Machine) -> None:
    taken: list[tuple[int, int, EventOp]] = []
    for event in events_of(program).values():
        if event.line is None:
            continue
        begin, end = event.line.value.data, event.end_line
        for other_begin, other_end, other in taken:
            if begin < other_end and other_begin < end:
                refuse(
                    event,
                    f"verify-queues: @{event.sym_name.data} and @{other.sym_name.data} share the "
                    f"cache line {max(begin, other_begin)}: each counter needs a line of its own",
                )
        taken.append((begin, end, event))
    if program.counters is None:
        return
    counters = program.counters.value.data
    if counters % machine.counter_line:
        refuse(
            program,
            f"verify-queues: the counters at {counters} are not at a multiple of "
            f"{machine.counter_line} bytes, the machine's cache line",
        )
    end = counters + machine.counter_line * max((e for _, e, _ in taken), default=0)
    _check_windows(program, "the counters", counters, end)
    if program.ticks("budget"):
        # A line for each core, after the counters (`LoweredProgram.given_up`).
        cores = sum(order.core_count for order in orders_of(program).values())
        what = "the reports of waits that exceed their budget"
        _check_windows(program, what, end, end + machine.counter_line * cores)


def _check_windows(program: ProgramOp, what: str, begin: int, end: int) -> None:
    """Refuses windows that overlap bytes `begin` to `end` of the window memory."""
    for name, buffer in buffers_of(program).items():
        if buffer.space.data is not MemorySpace.WINDOW or buffer.offset is None:
            continue
        first = buffer.offset.value.data
        last = first + buffer_bytes(buffer)
        if begin < last and first < end:
            refuse(
                buffer,
                f"verify-queues: @{name} covers bytes {first} to {last} of the windows, {what} "
                f"{begin} to {end}: they overlap",
            )


def check_thresholds(tasks: QueueTasks) -> None:
    """Checks that the signals of each event in a launch equal its threshold, on every rank.

    Raises RefusedError naming the event, its threshold and its signallers.
    """
    alike = tasks.own_signals[tasks.own_signals != NONE]
    signals = np.bincount(tasks.signals_apart.ravel(), minlength=len(tasks.thresholds))
    signals += np.tile(np.bincount(alike, minlength=tasks.events_per_rank), tasks.ranks)
    wrong = np.flatnonzero(signals != tasks.thresholds)
    if not wrong.size:
        return
    event = int(wrong[0])
    count, threshold = int(signals[event]), int(tasks.thresholds[event])
    waiters, signallers = tasks.waiters_of(event), tasks.signallers_of(event)
    text = "no task signals it"
    if count:
        first = tasks.task_text(int(signallers[0]))
        text = f"{first} signals it" if count == 1 else f"{count} tasks signal it, such as {first}"
    if not waiters.size:
        result = "its counter would be wrong in the next launch"
    elif count < threshold:
        result = f"{tasks.task_text(int(waiters[0]))} would wait for ever"
    else:
        result = f"{tasks.task_text(int(waiters[0]))} may start before all of them have ended"
    number = event % tasks.events_per_rank
    op = next(
        e for e in tasks.events if 0 <= number - tasks.first_event[e.sym_name.data] < e.event_count
    )
    refuse(
        op,
        f"verify-queues: {tasks.event_text(event)} has threshold {threshold}, {text}: {result}",
    )
