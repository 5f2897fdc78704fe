"""Refuses programs whose memory, counters or kernels do not fit the machine."""

from __future__ import annotations

import numpy as np

from hpmoe_ir.diagnostics import refuse
from hpmoe_ir.dialects.queue import EventOp, ProgramOp, events_of, orders_of
from hpmoe_ir.dialects.tile import buffer_bytes, buffers_of, families_of
from hpmoe_ir.machine import Machine, load_machine
from hpmoe_ir.passes.queue_tasks import QueueTasks
from hpmoe_ir.passes.task_uses import Use


def check_layout(program: ProgramOp) -> None:
    """Counters have lines of their own, outside the windows; local memory and cores suffice.

    Counters are looked at where `allocate-events` has placed them. Raises RefusedError.
    """
    machine = load_machine(program.machine.data)
    _check_counters(program, machine)
    for kind, order in orders_of(program).items():
        if order.core_count > machine.cores(kind):
            refuse(
                order,
                f"verify-queues: the queues are for {order.core_count} {kind} cores, "
                f"{machine.name} has {machine.cores(kind)}: a kernel whose cores are not all "
                "resident waits for ever",
            )
    for name, family in families_of(program).items():
        problem = family.find_kernel().local_use(family.int_options).exceeds(machine)
        if problem:
            refuse(family, f"verify-queues: @{name}, kernel '{family.kernel.data}': {problem}")


def _check_counters(program: ProgramOp, machine: Machine) -> None:
    taken: list[tuple[int, int, EventOp]] = []
    for event in events_of(program).values():
        if event.line is None:
            continue
        begin = event.line.value.data
        end = begin + event.event_count
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
    for name, buffer in buffers_of(program).items():
        if buffer.space.data != "window" or buffer.offset is None:
            continue
        begin = buffer.offset.value.data
        if begin < end and counters < begin + buffer_bytes(buffer):
            refuse(
                buffer,
                f"verify-queues: @{name} covers bytes {begin} to {begin + buffer_bytes(buffer)} of "
                f"the windows, the counters {counters} to {end}: they overlap",
            )


def check_thresholds(tasks: QueueTasks) -> None:
    """Each event gets exactly as many signals in a launch as its threshold says, on every rank.

    Raises RefusedError naming the event, its threshold and its signallers.
    """
    used = tasks.signals[tasks.signals >= 0]
    signals = np.bincount(used, minlength=len(tasks.thresholds))
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


def check_written(tasks: QueueTasks, uses_by_buffer: dict[str, list[Use]]) -> None:
    """What a task reads has been written by families before it, in the same launch.

    Inputs are the caller's. Looked at axis by axis: experts, source ranks, chunks, columns.
    Raises RefusedError naming the task, the region and what is missing.
    """
    buffers = buffers_of(tasks.program)
    for name, uses in uses_by_buffer.items():
        if buffers[name].space.data in ("input", "inout"):
            continue
        for i, use in enumerate(uses):
            if use.writes:
                continue
            writers = [w for w in uses[:i] if w.writes and w.family is not use.family]
            if not writers:
                refuse(
                    use.family,
                    f"verify-queues: @{use.family.sym_name.data} reads @{use.region.buffer}, and "
                    "no family before it writes that buffer in the launch",
                )
            _check_covered(tasks, use, writers)


def _check_covered(tasks: QueueTasks, use: Use, writers: list[Use]) -> None:
    owners = {int(o) for w in writers for o in np.unique(w.owner)}
    for owner in np.unique(use.owner):
        if int(owner) not in owners:
            at = int(np.flatnonzero(use.owner == owner)[0])
            refuse(
                use.family,
                f"verify-queues: {tasks.task_text(int(use.tasks[at]))} reads "
                f"@{use.region.buffer}, and no task writes it on that rank",
            )
    names = {n for w in writers for n in w.axes}
    for name in sorted(names):
        mine = use.axes.get(name)
        parts = [w.axes.get(name) for w in writers]
        if None in parts or len({p.cut for p in parts if p}) > 1:
            continue
        if mine is not None and any(p.cut != mine.cut for p in parts if p):
            # Rows cut in another way: what is read may have a row of every part.
            mine = None
        written = np.zeros((tasks.ranks, sum(len(p.spans) for p in parts if p)), dtype=bool)
        spans = np.concatenate([p.spans for p in parts if p])
        base = 0
        for writer, part in zip(writers, parts, strict=True):
            if part is not None:
                written[writer.owner, base + part.which] = True
                base += len(part.spans)
        whole = np.array([[0, max(p.extent for p in parts if p)]])
        wanted = whole if mine is None else mine.spans
        which = np.zeros(len(use.tasks), dtype=np.int64) if mine is None else mine.which
        none = len(use.tasks)
        first = np.full((tasks.ranks, len(wanted)), none)
        np.minimum.at(first, (use.owner, which), np.arange(none))
        seen: set[tuple[bytes, bytes]] = set()
        for owner in range(tasks.ranks):
            # Ranks are mostly alike: each case once.
            key = (written[owner].tobytes(), (first[owner] == none).tobytes())
            if key in seen:
                continue
            seen.add(key)
            here = np.unique(spans[written[owner]], axis=0).tolist()
            for number in np.flatnonzero(first[owner] < none):
                missing = _gap(here, *wanted[number].tolist())
                if missing is not None:
                    task = int(use.tasks[first[owner, number]])
                    refuse(
                        use.family,
                        f"verify-queues: {tasks.task_text(task)} reads "
                        f"{use.text(task, tasks)}, of which no task writes "
                        f"{_axis_text(name)} {missing}",
                    )


def _gap(spans: list[list[int]], low: int, high: int) -> int | None:
    """The first index of [low, high) that no span covers; spans ascend."""
    for begin, end in spans:
        if begin > low:
            break
        low = max(low, end)
    return low if low < high else None


def _axis_text(name: str) -> str:
    if name.startswith("dim"):
        return f"dimension {name[3:]}, index"
    return {"source": "source rank", "chunk": "chunk"}.get(name, name)
