"""Writes a timed run in the JSON trace event format of Perfetto and `chrome://tracing`."""

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
    """Returns the trace in the JSON trace event format, with one event per line.

    A rank is a process and a core a thread, numbered by `_Threads`. A task is a slice with the name
    of its family, preceded by a slice `wait` if it waited. The last signal of each event that a
    task waits for is a flow from the signaller's slice. Times are in us with three decimals. In a
    mirrored run, a flow from a peer begins at the corresponding task of the simulated rank.
    """
    configuration = simulation.configuration
    about = {
        "layer": configuration.layer,
        "routing": configuration.routing,
        "seed": configuration.seed,
        "function": configuration.function,
        "schedule": configuration.schedule,
        "pipeline": configuration.pipeline,
        "machine": simulation.timeline.machine.name,
        "machine_sha256": simulation.timeline.machine.digest,
        "simulated_ranks": f"{simulation.simulated_ranks} of {configuration.ranks}",
        **{f"bound_{name}": value for name, value in vars(simulation.bounds).items()},
        **{f"own_bound_{n}": value for n, value in vars(simulation.program_bounds).items()},
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
    """Returns the names of the cores of a rank, by number: `AIC 0`, ..., `AIV 0`, ..."""
    orders = simulation.timeline.program.orders
    return [
        f"{kind.upper()} {i}"
        for kind in (CoreKind.AIC, CoreKind.AIV)
        for i in range(orders[kind].core_count)
    ]


@dataclass(frozen=True)
class _Threads:
    """Numbering of processes (1 + rank) and threads (process times a power of ten, plus core).

    Perfetto identifies a thread by its number alone, some versions show thread 0 as 1, and a thread
    with the number of a process is its main thread. Thread numbers are therefore unique over all
    ranks and larger than process numbers: from 100 on rank 0, from 200 on rank 1.
    """

    step: int

    @staticmethod
    def of(simulation: Simulation) -> _Threads:
        largest = max(simulation.simulated_ranks, len(core_names(simulation)))
        return _Threads(10 ** len(str(largest)))

    def place(self, rank: Any, core: Any) -> dict[str, int]:
        """Returns `pid` and `tid` of a core of a rank."""
        process = 1 + int(rank)
        return {"pid": process, "tid": process * self.step + int(core)}


def _lanes(simulation: Simulation) -> Iterator[dict[str, Any]]:
    threads = _Threads.of(simulation)

    def metadata(rank: int, core: int, name: str, key: str, value: object) -> dict[str, Any]:
        return {"ph": "M", **threads.place(rank, core), "name": name, "args": {key: value}}

    for rank in range(simulation.simulated_ranks):
        yield metadata(rank, 0, "process_name", "name", f"rank {rank}")
        yield metadata(rank, 0, "process_sort_index", "sort_index", rank)
        for core, name in enumerate(core_names(simulation)):
            yield metadata(rank, core, "thread_name", "name", name)
            yield metadata(rank, core, "thread_sort_index", "sort_index", core)


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
        # A flow binds to the slice around its time; the end of a slice is outside it.
        leaves = max(ready[sender], min(done[sender], end[sender] - 1))
        for end_of_flow, task, ns in (
            ({"ph": "s"}, sender, leaves),
            ({"ph": "f", "bp": "e"}, waiter, ready[waiter]),
        ):
            place = threads.place(tasks["rank"][task], tasks["core"][task])
            yield {**end_of_flow, **flow, **place, "ts": _us(ns)}


def _us(ns: Any) -> float:
    """Converts whole ns to us with three decimals."""
    return round(int(ns) / 1000, 3)
