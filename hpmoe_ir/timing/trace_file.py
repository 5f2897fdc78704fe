"""A timed run as a trace that Chrome's and Perfetto's viewers open."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpmoe_ir.dialects.queue import POINT_BITS
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.run.execution import task_name
from hpmoe_ir.timing.simulation import Simulation


def trace_file(simulation: Simulation) -> bytes:
    """The trace in the JSON trace event format, an event in a line; the same for the same run.

    A rank is a process, a core a thread, with numbers of `_Threads`. A task is a slice by the name
    of its family, after a slice `wait` where it waited; the last signal of each event that it waits
    for is a flow from the signaller's slice. Times are us with three digits. In a mirrored run, a
    flow from a task that sends to other ranks begins at the task of the simulated rank that stands
    for the sender.
    """
    what = simulation.configuration
    about = {
        "layer": what.layer,
        "routing": what.routing,
        "seed": what.seed,
        "function": what.function,
        "schedule": what.schedule,
        "pipeline": what.pipeline,
        "machine": simulation.timeline.machine.name,
        "machine_sha256": simulation.timeline.machine.digest,
        "simulated_ranks": f"{simulation.simulated_ranks} of {what.ranks}",
        **{f"bound_{name}": value for name, value in vars(simulation.bounds).items()},
    }
    events = ",\n".join(
        json.dumps(event, separators=(",", ":"))
        for part in (_lanes(simulation), _slices(simulation), _flows(simulation))
        for event in part
    )
    head = json.dumps(about, separators=(",", ":"))
    return (
        f'{{"displayTimeUnit":"ns","otherData":{head},"traceEvents":[\n{events}\n]}}\n'
    ).encode()


def core_names(simulation: Simulation) -> list[str]:
    """Names of the cores of a rank, by number."""
    orders = simulation.timeline.program.orders
    return [
        f"{kind.upper()} {i}"
        for kind in (CoreKind.AIC, CoreKind.AIV)
        for i in range(orders[kind].core_count)
    ]


@dataclass(frozen=True)
class _Threads:
    """Numbers of processes and threads: 1 + rank, and that times a power of ten, + core.

    Perfetto knows a thread by its number alone. 0 is no thread: some of its versions show it as 1.
    A thread with the number of a process is that one's main thread. So the numbers of threads are
    different on all ranks and larger than those of processes: 100 and up on rank 0, 200 and up on
    rank 1.
    """

    step: int

    @staticmethod
    def of(simulation: Simulation) -> _Threads:
        most = max(simulation.simulated_ranks, len(core_names(simulation)))
        return _Threads(10 ** len(str(most)))

    def place(self, rank: Any, core: Any) -> dict[str, int]:
        """Of a core of a rank, integers of any kind."""
        process = 1 + int(rank)
        return {"pid": process, "tid": process * self.step + int(core)}


def _lanes(simulation: Simulation) -> Iterator[dict[str, Any]]:
    threads = _Threads.of(simulation)

    def about(rank: int, core: int, what: str, key: str, value: object) -> dict[str, Any]:
        return {"ph": "M", **threads.place(rank, core), "name": what, "args": {key: value}}

    for rank in range(simulation.simulated_ranks):
        yield about(rank, 0, "process_name", "name", f"rank {rank}")
        yield about(rank, 0, "process_sort_index", "sort_index", rank)
        for core, name in enumerate(core_names(simulation)):
            yield about(rank, core, "thread_name", "name", name)
            yield about(rank, core, "thread_sort_index", "sort_index", core)


def _slices(simulation: Simulation) -> Iterator[dict[str, Any]]:
    program, tasks = simulation.timeline.program, simulation.timeline.tasks
    families, threads = list(program.families), _Threads.of(simulation)
    sender = simulation.order.sender
    slack = np.rint(simulation.slack_us * 1000) / 1000 + 0.0
    turn, ready, end = (np.rint(tasks[name]).astype(int) for name in ("turn", "ready", "end"))
    arrival = simulation.order.arrival
    for i, task in enumerate(tasks):
        place = threads.place(task["rank"], task["core"])
        if ready[i] > turn[i]:
            args: dict[str, object] = {}
            if sender[i] >= 0:
                other = tasks[sender[i]]
                args["for"] = task_name(program, int(other["slot"]))
                args["rank"] = int(other["rank"])
                args["arrived"] = _us(int(np.rint(arrival[i])))
            span = {"ts": _us(turn[i]), "dur": _us(ready[i] - turn[i])}
            yield {"ph": "X", "name": "wait", "cat": "wait", **place, **span, "args": args}
        yield {
            "ph": "X",
            "name": families[int(task["slot"]) >> POINT_BITS],
            "cat": "task",
            **place,
            "ts": _us(ready[i]),
            "dur": _us(end[i] - ready[i]),
            "args": {
                "task": task_name(program, int(task["slot"])),
                "busy": round(float(task["busy"]) / 1000, 3),
                "slack": float(slack[i]),
            },
        }


def _flows(simulation: Simulation) -> Iterator[dict[str, Any]]:
    order, tasks = simulation.order, simulation.timeline.tasks
    threads = _Threads.of(simulation)
    signal = order.last_signal[order.wait_counter]
    known = signal >= 0
    pairs = np.stack([order.signal_task[signal[known]], order.wait_task[known]], axis=1)
    ready, done, end = (np.rint(tasks[name]).astype(int) for name in ("ready", "done", "end"))
    for number, (sender, waiter) in enumerate(np.unique(pairs, axis=0)):
        flow = {"name": "signal", "cat": "event", "id": number}
        # A flow binds to the slice around its time, which begins before its end.
        leaves = max(ready[sender], min(done[sender], end[sender] - 1))
        for end_of_flow, task, ns in (
            ({"ph": "s"}, sender, leaves),
            ({"ph": "f", "bp": "e"}, waiter, ready[waiter]),
        ):
            place = threads.place(tasks["rank"][task], tasks["core"][task])
            yield {**end_of_flow, **flow, **place, "ts": _us(ns)}


def _us(ns: Any) -> float:
    """Whole ns, as an integer of any kind, in us."""
    return round(int(ns) / 1000, 3)
